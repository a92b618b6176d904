// The unigram model: of all ways to write a word as tokens, the one whose scores sum to the most (Kudo 2018).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/input/text/byte_trie.h"
#include "engine/input/text/model.h"

namespace strata::text {

class Unigram : public Model {
 public:
  explicit Unigram(const JsonField& field);

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  /// The best way to write the text up to some byte.
  struct Best {
    double score = 0;
    std::int32_t begin = -1;  ///< of its last token; -1: there is no way yet
    std::int32_t id = 0;
  };

  void find_best(std::string_view word, std::vector<Best>& best) const;
  /// The ids of a text that is a token, or of one that is not: its bytes', or the unknown token's.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const;
  std::int32_t unknown_id() const;

  std::vector<double> scores_;  ///< by id
  Vocabulary vocabulary_;
  ByteTrie trie_;
  std::optional<std::int32_t> unknown_id_;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::vector<std::int32_t> ids_of_bytes_;  ///< <0x00> to <0xFF>; negative: none
};

}  // namespace strata::text
