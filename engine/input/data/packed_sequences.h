// Which documents stand in which sequence if none is cut: data.packing whole. Follows from their lengths
// alone. Immutable after construction; call from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/input/data/token_source.h"

namespace strata {

/// Tokens of one document, one behind another.
struct DocumentPiece {
  std::int64_t token = 0;  ///< the first
  std::int32_t length = 0;
  bool is_last = true;  ///< the document ends with it

  /// How many of its tokens have a next token in their document.
  std::int32_t targets() const { return length - (is_last ? 1 : 0); }
  friend bool operator==(const DocumentPiece&, const DocumentPiece&) = default;
};

class PackedSequences {
 public:
  /// Documents of tokens [first, end) in sequences of this length, by best fit from the longest down (Johnson
  /// et al. 1974): each goes where it leaves the least room, or into a new sequence. Only a document that is
  /// longer is cut, into whole sequences and a rest. REQUIRES: documents begin at `first` and at `end`, and
  /// the source knows them.
  PackedSequences(const TokenSource& source, std::int64_t first, std::int64_t end,
                  std::int64_t sequence_length);

  /// Sequences stand in the order of their first tokens.
  std::int64_t count() const { return static_cast<std::int64_t>(first_piece_.size()) - 1; }
  /// Those of a sequence, in the order of the data. What they leave of it has no document.
  std::span<const DocumentPiece> pieces(std::int64_t sequence) const;

 private:
  std::vector<DocumentPiece> pieces_;     ///< sequence by sequence
  std::vector<std::size_t> first_piece_;  ///< of each sequence, then the number of pieces
};

}  // namespace strata
