// Where each token of a text stands in it: by what the tokens say, not by how they were made, since almost
// every tokenizer's tokens spell the text that they were made of. Plain functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/input/text/tokenizer.h"

namespace strata::text {

/// From `begin` to before `end`.
struct Range {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// The bytes that each token stands for, in whole characters: several tokens of one character have it all,
/// and one that is only a space that the tokenizer has put in has the character behind. `ids` are what the
/// tokenizer made of the text. Nothing if the tokens do not spell the text: a normalizer has changed it, or
/// something in it is unknown.
std::optional<std::vector<Range>> token_places(const Tokenizer& tokenizer, std::string_view text,
                                               std::span<const std::int32_t> ids);

/// The tokens whose places have one of a stretch's bytes or more: those that an assistant has said for
/// transformers, too (apply_chat_template(return_assistant_tokens_mask=True)).
Range tokens_of(std::span<const Range> places, const Range& bytes);

/// The tokens of each of a text's stretches, whatever the tokenizer's normalizer has made of the text. `ids`
/// are what the tokenizer made of it. Nothing if a stretch's tokens cannot be told.
std::optional<std::vector<Range>> tokens_of_stretches(const Tokenizer& tokenizer, std::string_view text,
                                                      std::span<const std::int32_t> ids,
                                                      std::span<const Range> stretches);

}  // namespace strata::text
