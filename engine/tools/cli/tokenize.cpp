// strata tokenize: text files as a file of token ids.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/watchdog.h"
#include "engine/config/choices.h"
#include "engine/input/data/token_files.h"
#include "engine/input/data/token_names.h"
#include "engine/input/data/tokenize.h"
#include "engine/input/text/tokenizer.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/model_command.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"
#include "engine/tools/cli/show_samples.h"
#include "engine/tools/cli/texts_line.h"

namespace strata {
namespace {

/// Two that go on with the same files would spoil them.
std::unique_ptr<FolderLock> lock_files(const std::filesystem::path& prefix) {
  try {
    return std::make_unique<FolderLock>(Folder::named(prefix.parent_path()),
                                        prefix.filename().string() + ".lock");
  } catch (const FolderInUseError& error) {
    throw ConfigError(fmt::format(
        "{}, which writes the same files: wait for it to end, or choose another name", error.what()));
  }
}

/// Counts texts that this call has tokenized, not those from before it.
std::string rate_of(const TokenizeProgress& done, double seconds) {
  const auto bytes = static_cast<double>(done.all_bytes - done.found);
  return fmt::format("{} in {:.1f} s ({}/s)", format_bytes(done.all_bytes - done.found), seconds,
                     format_bytes(static_cast<Bytes>(bytes / seconds)));
}

int show_run(const TokenizeCommand& command) {
  if (!command.prefix.empty())
    throw ConfigError(
        fmt::format("--show: takes one run file, and '{}' is one argument more", command.prefix));
  return show_samples({command.tokenizer, command.overrides}, command.show);
}

}  // namespace

int run_tokenize(const TokenizeCommand& command) {
  if (command.show > 0) return show_run(command);
  if (command.prefix.empty() || command.texts.empty())
    throw ConfigError(
        "tokenize: give a tokenizer, the prefix of the files to write, and texts; or --show N and a "
        "run file");
  if (!command.overrides.empty())
    throw ConfigError("--set: belongs to --show, which looks at the samples of a run file");
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  refuse_overwriting({{{"the prefix", command.prefix}}, {}});
  const std::filesystem::path file = tokenizer_file_of(command.tokenizer);
  const text::Tokenizer tokenizer = text::Tokenizer::read(file);
  TokenizeOptions options;
  const std::filesystem::path folder = file.parent_path();
  const BeginToken begin = begin_token_named(command.begin_token);
  if (command.has_no_end || !command.end.empty()) {
    options.borders.begin = begin_of_texts(tokenizer, folder, begin);
    if (!command.end.empty()) options.borders.end = end_named(tokenizer, command.end);
  } else {
    options.borders = borders_of_texts(tokenizer, folder, begin);
  }
  options.threads = static_cast<int>(command.threads > 0 ? command.threads
                                                         : std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<std::string> texts = find_token_files(command.texts, Tokenizer::bytes, "tokenize");
  options.documents = document_options(command);
  const auto conversations = chat_template_for(texts, folder, options.documents);
  if (conversations) options.conversations = &*conversations;
  options.name = name_of_tokens(tokenizer, file, options, texts);
  const std::unique_ptr<FolderLock> lock = lock_files(command.prefix);
  TextsLine line;
  const TokenizeProgress done =
      tokenize_files(tokenizer, texts, command.prefix, options,
                     [&](const TokenizeProgress& progress) { line.show(progress); });
  const double seconds = line.end();
  if (done.found > 0) std::cout << fmt::format("continued behind {}\n", format_bytes(done.found));
  std::cout << fmt::format("wrote {0}.bin and {0}.idx: {1} tokens of {2} texts, {3}\n", command.prefix,
                           done.tokens, done.documents, rate_of(done, seconds));
  std::cout << fmt::format("read {}\n", done.read.describe());
  for (const std::string& warning : done.read.warnings()) std::cerr << "warning: " << warning << '\n';
  return 0;
}

}  // namespace strata
