// What a user writes and reads as tokens: by a model's tokenizer, or byte by byte, as data.tokenizer bytes
// has it. Immutable, but for TextStream; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/tokenizer.h"
#include "engine/run/generate/sampling.h"

namespace strata {

class PromptText {
 public:
  /// `given`: "bytes", a model's folder, or its tokenizer.json. Throws ConfigError, IoError.
  static PromptText read(const std::string& given);

  /// Null if bytes are tokens.
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// Without the special tokens that the tokenizer puts around a text.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// UTF-8, without special tokens.
  std::string decode(std::span<const std::int32_t> ids) const;
  /// Bytes of text that the token stands for; 0 of one that stands for none.
  std::int64_t text_bytes(std::int32_t id) const;

 private:
  std::optional<text::Tokenizer> tokenizer_;
};

/// The text of a sequence of tokens as they come, in whole characters.
class TextStream {
 public:
  /// `text` outlives this.
  explicit TextStream(const PromptText& text) : text_(&text) {}

  /// What can be said of the text now that was not said before.
  std::string add(std::int32_t token);
  /// The rest.
  std::string end();
  const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  std::string rest(bool whole_only);

  const PromptText* text_;
  std::vector<std::int32_t> ids_;
  std::size_t said_ = 0;
};

/// eos_token_id of the folder's generation_config.json, or else of its config.json: a number or a list of
/// numbers; none if neither says. Throws ConfigError for what is neither.
std::set<std::int32_t> stop_tokens(const std::filesystem::path& folder);

/// Temperature, top_p and top_k as the folder's generation_config.json says them; `otherwise` where it does
/// not. With do_sample false the temperature is 0. Throws ConfigError for what is no such number.
SamplingOptions sampling_of(const std::filesystem::path& folder, SamplingOptions otherwise);

}  // namespace strata
