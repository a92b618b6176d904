#include "engine/input/text/model.h"

#include <fmt/format.h>

#include "engine/input/text/bpe.h"
#include "engine/input/text/unigram.h"
#include "engine/input/text/word_piece.h"

namespace strata::text {
namespace {

/// Files from before models had a type.
std::string guessed_type(const JsonField& field) {
  if (field.find("merges")) return "BPE";
  if (field.find("max_input_chars_per_word")) return "WordPiece";
  if (field.find("vocab") && field.at("vocab").value().is_array()) return "Unigram";
  field.refuse("'type' is missing");
}

}  // namespace

std::unique_ptr<Model> read_model(const JsonField& field) {
  const auto named = field.find("type");
  const std::string type = named ? named->text() : guessed_type(field);
  if (type == "BPE") return std::make_unique<Bpe>(field);
  if (type == "Unigram") return std::make_unique<Unigram>(field);
  if (type == "WordPiece") return std::make_unique<WordPiece>(field);
  field.refuse(fmt::format("model '{}' is not supported; BPE, Unigram and WordPiece are", type));
}

}  // namespace strata::text
