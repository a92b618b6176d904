// strata tokenize: text files as a file of token ids.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/say.h"
#include "engine/data/token_files.h"
#include "engine/data/tokenize.h"
#include "engine/text/tokenizer.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// eos_token of a tokenizer_config.json: a text, or an object with the text as `content`. Empty: there is
/// none.
std::string end_token_of(const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return "";
  const nlohmann::json config = read_json_object(file);
  const auto token = config.find("eos_token");
  if (token == config.end() || token->is_null()) return "";
  const nlohmann::json* text = &*token;
  if (token->is_object() && token->contains("content")) text = &token->at("content");
  if (!text->is_string())
    throw ConfigError(
        fmt::format("{}: eos_token: expected a text, or an object with the text content", file.string()));
  return text->get<std::string>();
}

std::optional<std::int32_t> find_end(const TokenizeCommand& command, const text::Tokenizer& tokenizer,
                                     const fs::path& folder) {
  if (command.has_no_end) return std::nullopt;
  const std::string token = command.end.empty() ? end_token_of(folder) : command.end;
  if (token.empty())
    throw ConfigError(fmt::format(
        "{} names no eos_token: say with --end which token stands behind each text, or --no-end for none",
        (folder / "tokenizer_config.json").string()));
  const std::optional<std::int32_t> id = tokenizer.id_of(token);
  if (!id)
    throw ConfigError(
        fmt::format("the tokenizer has no token '{}' to stand behind each text; see --end", token));
  return id;
}

/// One line that grows on a terminal; elsewhere a line every 30 s.
class TextsLine {
 public:
  void show(const TokenizeProgress& progress) {
    using Seconds = std::chrono::duration<double>;
    const double now = Seconds(Clock::now() - begin_).count();
    const double between = is_terminal_ ? 0.2 : 30;
    if (now - shown_ < between) return;
    shown_ = now;
    const double done = static_cast<double>(progress.bytes), all = static_cast<double>(progress.all_bytes);
    const std::string line = fmt::format(
        "{} of {} tokenized, {:.2f} million tokens, {}/s, {:.0f} s left", format_bytes(progress.bytes),
        format_bytes(progress.all_bytes), static_cast<double>(progress.tokens) / 1e6,
        format_bytes(static_cast<Bytes>(done / now)), now * (all - done) / done);
    std::cerr << (is_terminal_ ? "\r\033[K" : "") << line << (is_terminal_ ? "" : "\n") << std::flush;
  }
  double end() {
    if (is_terminal_ && shown_ > 0) std::cerr << "\r\033[K";
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  const Clock::time_point begin_ = Clock::now();
  double shown_ = 0;
};

}  // namespace

int run_tokenize(const TokenizeCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const fs::path given = command.tokenizer;
  std::error_code error;
  const bool is_folder = fs::is_directory(given, error);
  const fs::path file = is_folder ? given / "tokenizer.json" : given;
  if (!is_there(file))
    throw ConfigError(fmt::format(
        "{} is not there: name a model's folder that has a tokenizer.json, or such a file", file.string()));
  const text::Tokenizer tokenizer = text::Tokenizer::read(file);
  TokenizeOptions options;
  options.end = find_end(command, tokenizer, file.parent_path());
  options.threads = static_cast<int>(command.threads > 0 ? command.threads
                                                         : std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<std::string> texts = find_token_files(command.texts, Tokenizer::bytes, "tokenize");
  TextsLine line;
  const TokenizeProgress done =
      tokenize_files(tokenizer, texts, command.prefix, options,
                     [&](const TokenizeProgress& progress) { line.show(progress); });
  const double seconds = line.end();
  std::cout << fmt::format("wrote {0}.bin and {0}.idx: {1} tokens of {2} texts, {3} in {4:.1f} s ({5}/s)\n",
                           command.prefix, done.tokens, done.documents, format_bytes(done.all_bytes), seconds,
                           format_bytes(static_cast<Bytes>(static_cast<double>(done.all_bytes) / seconds)));
  return 0;
}

}  // namespace strata
