// WordPiece, BERT's model: the longest token that a word begins with, then the longest one that continues it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/model.h"

namespace strata::text {

class WordPiece : public Model {
 public:
  explicit WordPiece(const JsonField& field);

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  /// Whether the word is tokens throughout, which then are appended.
  bool append_pieces(std::string_view word, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::string unknown_token_, continuing_prefix_;
  std::size_t most_characters_;  ///< a longer word is unknown
};

}  // namespace strata::text
