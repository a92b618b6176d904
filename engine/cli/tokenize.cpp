// strata tokenize: text files as a file of token ids.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <thread>

#include "base/watchdog.h"
#include "engine/cli/commands.h"
#include "engine/cli/say.h"
#include "engine/cli/texts_line.h"
#include "engine/data/token_files.h"
#include "engine/data/tokenize.h"
#include "engine/text/tokenizer.h"

namespace strata {

int run_tokenize(const TokenizeCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const std::filesystem::path file = tokenizer_file_of(command.tokenizer);
  const text::Tokenizer tokenizer = text::Tokenizer::read(file);
  TokenizeOptions options;
  if (!command.has_no_end) options.end = end_of_texts(tokenizer, file.parent_path(), command.end);
  options.threads = static_cast<int>(command.threads > 0 ? command.threads
                                                         : std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<std::string> texts = find_token_files(command.texts, Tokenizer::bytes, "tokenize");
  const auto conversations = chat_template_for(texts, file.parent_path());
  if (conversations) options.conversations = &*conversations;
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
