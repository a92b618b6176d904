// A text on its way from normalization to the model, cut into pieces. Each piece is a range of one buffer.
// Pieces that are added tokens already have their id. Steps cut pieces, or write their characters anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/bounds.h"

namespace strata::text {

struct Piece {
  static constexpr std::int32_t kNoId = -1;

  std::size_t begin = 0, end = 0;  ///< of the buffer's bytes
  std::int32_t id = kNoId;         ///< of the added token that this is
  /// Whether it begins with the first character of the text that is encoded; Metaspace may ask.
  bool is_first = false;
};

class Pieces {
 public:
  /// Begins anew with an empty text. rewrite() may make at most `most_bytes` of it.
  void clear(std::size_t most_bytes);
  const std::vector<Piece>& list() const { return pieces_; }
  std::string_view text(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.end - piece.begin);
  }

  /// Appends a piece with a text of its own; an empty one that is no token is none.
  void add(std::string_view text, bool is_first, std::int32_t id = Piece::kNoId);

  /// Cuts each piece that is no token: `cut(text, keep)` calls `keep(begin, end)` for each part that stays.
  template <typename Cut>
  void cut(const Cut& cut) {
    next_pieces_.clear();
    for (const Piece& piece : pieces_) {
      if (piece.id != Piece::kNoId) {
        next_pieces_.push_back(piece);
        continue;
      }
      cut(text(piece), [&](std::size_t begin, std::size_t end) {
        if (begin == end) return;
        next_pieces_.push_back(
            {piece.begin + begin, piece.begin + end, Piece::kNoId, piece.is_first && begin == 0});
      });
    }
    pieces_.swap(next_pieces_);
  }

  /// Writes each piece that is no token anew: `write(text, is_first, out)` appends to `out`. Throws
  /// ConfigError beyond the bytes that clear() was told.
  template <typename Write>
  void rewrite(const Write& write) {
    next_text_.clear();
    for (Piece& piece : pieces_) {
      const std::size_t begin = next_text_.size();
      if (piece.id == Piece::kNoId) write(text(piece), piece.is_first, next_text_);
      piece.begin = begin;
      piece.end = next_text_.size();
      check_growth(piece.end, most_bytes_);
    }
    text_.swap(next_text_);
  }

 private:
  std::size_t most_bytes_ = SIZE_MAX;
  std::string text_, next_text_;
  std::vector<Piece> pieces_, next_pieces_;
};

}  // namespace strata::text
