// What makes ids of words: byte pairs, unigrams or word pieces. Immutable; call from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/json_field.h"
#include "engine/input/text/vocabulary.h"

namespace strata::text {

class Model {
 public:
  virtual ~Model() = default;

  /// Appends the word's ids. Throws ConfigError if the word has something unknown for which the file has no
  /// token. REQUIRES: valid UTF-8, not empty.
  virtual void encode(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
  /// The bytes of a beginning of the word whose ids are the same without the rest, and the rest's without it;
  /// long words are encoded in such parts, which come again and are known then. REQUIRES: as encode().
  virtual std::size_t independent_beginning(std::string_view word) const { return word.size(); }
  virtual const Vocabulary& vocabulary() const = 0;
};

/// Throws ConfigError for a model or a setting that is not supported, and for a damaged vocabulary.
std::unique_ptr<Model> read_model(const JsonField& field);

}  // namespace strata::text
