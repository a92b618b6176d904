#include "engine/input/data/byte_tokens.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "engine/config/run_config.h"

namespace strata {

std::string doubt_about_bytes(const RunConfig& config, std::int64_t vocabulary) {
  // 256 bytes and at most four special tokens.
  const bool is_of_bytes = vocabulary >= 256 && vocabulary <= 260;
  if (config.data.tokenizer != Tokenizer::bytes || config.model.path.empty() || is_of_bytes) return "";
  constexpr std::array kTokenizerFiles = {"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                                          "vocab.json", "vocab.txt"};
  for (const char* name : kTokenizerFiles) {
    const std::filesystem::path file = std::filesystem::path(config.model.path) / name;
    if (!is_there(file)) continue;
    throw ConfigError(
        fmt::format("data.tokenizer: bytes are no tokens of this model, which has {} of its own and {}: "
                    "set data.tokenizer to auto, or tokenize the text with it "
                    "and set data.tokenizer to none",
                    vocabulary, file.string()));
  }
  return fmt::format(
      "data.tokenizer is bytes, but the model in {} has a vocabulary of {}; that is right only if it was "
      "trained on "
      "bytes",
      config.model.path, vocabulary);
}

}  // namespace strata
