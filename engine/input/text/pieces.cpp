#include "engine/input/text/pieces.h"

namespace strata::text {

void Pieces::clear(std::size_t most_bytes) {
  most_bytes_ = most_bytes;
  text_.clear();
  pieces_.clear();
}

void Pieces::add(std::string_view text, bool is_first, std::int32_t id) {
  if (text.empty() && id == Piece::kNoId) return;
  const std::size_t begin = text_.size();
  text_.append(text);
  pieces_.push_back({begin, text_.size(), id, is_first});
}

}  // namespace strata::text
