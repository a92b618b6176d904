// The file's pre-tokenizer: how a normalized text is cut into the words that the model sees. A value; call it
// from any thread, each with pieces of its own.
#pragma once

#include <functional>
#include <vector>

#include "engine/input/text/json_field.h"
#include "engine/input/text/pieces.h"

namespace strata::text {

using PreTokenize = std::function<void(Pieces&)>;

struct PreTokenizer {
  std::vector<PreTokenize> steps;  ///< in order
  /// Whether the model sees the words' bytes as characters (byte_characters.h). The caller of the
  /// model writes them so, since it mostly knows a word's ids already.
  bool ends_in_byte_characters = false;
};

/// Throws ConfigError for a pre-tokenizer or a setting that is not supported.
PreTokenizer read_pre_tokenizer(const JsonField& field);

}  // namespace strata::text
