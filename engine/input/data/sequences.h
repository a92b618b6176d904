// The sequences that samples are, of one stretch of a token source: windows of its stream, or documents put
// together. Immutable after construction; fill from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/context_part.h"
#include "engine/input/data/packed_sequences.h"
#include "engine/input/data/token_source.h"

namespace strata {

/// Sequence i covers tokens [begin + i·S, begin + i·S + S + 1): S inputs, and S targets shifted by one.
struct SequenceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// What a rank has of one sequence; any may be empty.
struct SequenceData {
  std::span<std::int32_t> tokens, targets, places;
  std::span<std::int32_t> lengths = {};  ///< of each token's document, what the sequence has of it

  SequenceData slice(std::int64_t first, std::int64_t count) const;
};

/// The source must outlive them.
class Sequences {
 public:
  /// Windows of `length` tokens; `by_documents`: what begins a document is nobody's target.
  Sequences(const TokenSource& source, const SequenceRange& range, std::int64_t length, bool by_documents)
      : source_(&source), range_(range), length_(length), by_documents_(by_documents) {}
  /// Documents put together.
  Sequences(const TokenSource& source, PackedSequences packed, std::int64_t length)
      : source_(&source), packed_(std::move(packed)), length_(length), by_documents_(true) {}

  std::int64_t count() const { return packed_ ? packed_->count() : range_.count; }
  /// As BatchLoader::fill() says.
  void fill(std::int64_t sequence, const SequenceData& data, const ContextPart& part) const;
  /// How many of a sequence's targets are trained on.
  std::int64_t trained(std::int64_t sequence) const;

 private:
  void fill_stretch(std::int64_t sequence_begin, std::int64_t position, const SequenceData& data,
                    std::int64_t count) const;
  void fill_pieces(std::span<const DocumentPiece> pieces, std::int64_t begin, std::int64_t count,
                   const SequenceData& data) const;
  void fill_piece(const DocumentPiece& piece, std::int64_t place, const SequenceData& data) const;

  const TokenSource* source_;
  SequenceRange range_ = {};
  std::optional<PackedSequences> packed_ = {};
  std::int64_t length_;
  bool by_documents_;
};

}  // namespace strata
