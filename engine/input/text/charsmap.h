// The normalization rules that sentencepiece writes into its models (precompiled_charsmap): a double-array
// trie (darts-clone) from characters to what replaces them. Immutable; use from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/json_field.h"

namespace strata::text {

class Charsmap {
 public:
  /// The file has it as base64. Throws ConfigError if that is damaged.
  explicit Charsmap(const JsonField& field);

  /// Replaces grapheme clusters of fewer than six bytes as wholes where a rule is for them, else each
  /// character, as the original does. REQUIRES: valid UTF-8.
  void append_normalized(std::string_view text, std::string& out, std::size_t most_bytes) const;

 private:
  /// What replaces a chunk that begins with a rule's key; the shortest key counts.
  std::optional<std::string_view> replacement(std::string_view chunk) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;  ///< each ends with a zero byte
};

}  // namespace strata::text
