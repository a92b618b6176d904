// Tokens that a text is searched for before the model sees it: special ones, and those that were added to a
// finished vocabulary. Immutable after construction; use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/input/text/byte_trie.h"
#include "engine/input/text/json_field.h"
#include "engine/input/text/normalizer.h"
#include "engine/input/text/vocabulary.h"

namespace strata::text {

/// An entry of the file's list, with the id that it gets.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool single_word = false;  ///< only where no letter or digit is beside it
  bool lstrip = false;       ///< takes the whitespace before it
  bool rstrip = false;       ///< takes the whitespace behind it
  bool normalized = false;   ///< is looked for in normalized text, as it is normalized itself
  bool special = false;      ///< may be left out when ids are decoded

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// As in the original, a token that the vocabulary has gets its id there, and others get the next ids
  /// behind the vocabulary, whatever the file says. Throws ConfigError if two tokens are looked for in one
  /// form.
  AddedTokens(const JsonField& field, const Vocabulary& vocabulary, const Normalize& normalize);

  const std::vector<AddedToken>& list() const { return tokens_; }
  std::optional<std::int32_t> id(std::string_view token) const;
  /// The form in which a token is decoded: normalized if it is looked for so.
  std::optional<std::string_view> decoded(std::int32_t id) const;
  /// Whether a text is that of a special token.
  bool is_special(std::string_view text) const { return special_texts_.contains(std::string(text)); }

  /// Calls `use(part, id)` for all of the text in order; `id` is Piece::kNoId between tokens. Of tokens that
  /// begin at one place the longest is found. `in_normalized` says which tokens are looked for.
  void split(std::string_view text, bool in_normalized,
             const std::function<void(std::string_view, std::int32_t)>& use) const;

 private:
  /// What is looked for in text of one kind; values are places in tokens_.
  void index(const JsonField& field);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> forms_;  ///< of tokens_: as they are looked for
  std::unordered_map<std::string, std::size_t> by_text_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  std::unordered_set<std::string> special_texts_;
  ByteTrie raw_, normalized_;
  bool has_raw_ = false, has_normalized_ = false;
};

}  // namespace strata::text
