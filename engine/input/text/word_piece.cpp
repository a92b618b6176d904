#include "engine/input/text/word_piece.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/input/text/bounds.h"
#include "engine/input/text/utf8.h"

namespace strata::text {

WordPiece::WordPiece(const JsonField& field)
    : vocabulary_(Vocabulary::read(field.at("vocab"))),
      unknown_token_(field.at("unk_token").text()),
      continuing_prefix_(field.at("continuing_subword_prefix").text()),
      most_characters_(static_cast<std::size_t>(field.at("max_input_chars_per_word").id())) {
  field.allow_only({"type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"});
}

bool WordPiece::append_pieces(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::string piece;
  std::size_t steps = 0;
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    piece = begin > 0 ? continuing_prefix_ : "";
    piece.append(word.substr(begin));
    end = word.size();
    auto id = vocabulary_.id(piece);
    while (!id) {
      const std::size_t shorter = character_before(word, end);
      if (shorter <= begin) return false;
      piece.resize(piece.size() - (end - shorter));
      end = shorter;
      steps += 1 + piece.size() / 16;
      check_steps(steps, word.size());
      id = vocabulary_.id(piece);
    }
    ids.push_back(*id);
  }
  return true;
}

void WordPiece::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  if (count_characters(word) <= most_characters_ && append_pieces(word, ids)) return;
  ids.resize(begin);
  const auto unknown = vocabulary_.id(unknown_token_);
  if (!unknown) {
    throw ConfigError(
        fmt::format("the tokenizer's model.unk_token '{}' is not in its vocabulary, and a text has a "
                    "word that is no tokens of it",
                    unknown_token_));
  }
  ids.push_back(*unknown);
}

}  // namespace strata::text
