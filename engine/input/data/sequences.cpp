#include "engine/input/data/sequences.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "base/nth.h"

namespace strata {

SequenceData SequenceData::slice(std::int64_t first, std::int64_t count) const {
  const auto in = [&](std::span<std::int32_t> all) {
    return all.empty() ? all : strata::slice(all, first, count);
  };
  return {in(tokens), in(targets), in(places), in(lengths)};
}

std::int64_t Sequences::trained(std::int64_t sequence) const {
  if (packed_) {
    std::int64_t sum = 0;
    for (const DocumentPiece& piece : packed_->pieces(sequence))
      sum += source_->trained(piece.token + 1, piece.targets());
    return sum;
  }
  const std::int64_t first = range_.begin + sequence * length_ + 1;
  return by_documents_ ? source_->trained_within_documents(first, length_) : source_->trained(first, length_);
}

void Sequences::fill(std::int64_t sequence, const SequenceData& data, const ContextPart& part) const {
  const std::int64_t rows = length_ / part.ranks, stretch = part.ranks == 1 ? rows : rows / 2;
  for ([[maybe_unused]] const auto& own : {data.tokens, data.targets, data.places, data.lengths})
    assert(own.empty() || std::ssize(own) == rows);
  for (std::int64_t at = 0; at < rows; at += stretch) {
    const std::int64_t position = part.positions(rows).at(at);
    const SequenceData own = data.slice(at, stretch);
    if (packed_) {
      fill_pieces(packed_->pieces(sequence), position, stretch, own);
    } else {
      fill_stretch(range_.begin + sequence * length_, position, own, stretch);
    }
  }
}

/// Positions [begin, begin + count) of a sequence.
void Sequences::fill_pieces(std::span<const DocumentPiece> pieces, std::int64_t begin, std::int64_t count,
                            const SequenceData& data) const {
  std::int64_t start = 0;  // of a piece, in the sequence
  for (const DocumentPiece& piece : pieces) {
    const std::int64_t first = std::max(start, begin), end = std::min(start + piece.length, begin + count);
    if (first < end) fill_piece(piece, first - start, data.slice(first - begin, end - first));
    start += piece.length;
  }
  const std::int64_t first = std::max(start, begin), rest = begin + count - first;
  if (rest <= 0) return;
  const SequenceData nothing = data.slice(first - begin, rest);
  std::ranges::fill(nothing.tokens, 0);
  std::ranges::fill(nothing.targets, kUntrained);
  std::iota(nothing.places.begin(), nothing.places.end(), static_cast<std::int32_t>(first - start));
  std::ranges::fill(nothing.lengths, static_cast<std::int32_t>(length_ - start));
}

/// Those of a piece from a place in it on.
void Sequences::fill_piece(const DocumentPiece& piece, std::int64_t place, const SequenceData& data) const {
  source_->read(piece.token + place, data.tokens);
  std::iota(data.places.begin(), data.places.end(), static_cast<std::int32_t>(place));
  std::ranges::fill(data.lengths, piece.length);
  if (data.targets.empty()) return;
  const auto there =
      static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(data.targets), piece.targets() - place));
  const std::span<std::int32_t> next = data.targets.first(there);
  source_->read(piece.token + place + 1, next);
  source_->leave_out_untrained(piece.token + place + 1, next);
  std::ranges::fill(data.targets.subspan(there), kUntrained);
}

/// `count` tokens from the position on of the window that begins there.
void Sequences::fill_stretch(std::int64_t sequence_begin, std::int64_t position, const SequenceData& data,
                             std::int64_t count) const {
  const std::int64_t first = sequence_begin + position;
  source_->read(first, data.tokens);
  if (!data.places.empty()) source_->read_places(first, sequence_begin, data.places);
  if (!data.lengths.empty())
    source_->read_lengths(first, {sequence_begin, sequence_begin + length_}, data.lengths);
  if (data.targets.empty()) return;
  if (data.tokens.empty()) {
    source_->read(first + 1, data.targets);
  } else {
    std::ranges::copy(data.tokens.subspan(1), data.targets.begin());
    source_->read(first + count, data.targets.last(1));
  }
  source_->leave_out_untrained(first + 1, data.targets);
  if (by_documents_) source_->leave_out_beginnings(first + 1, data.targets);
}

}  // namespace strata
