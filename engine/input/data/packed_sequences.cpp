#include "engine/input/data/packed_sequences.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace strata {
namespace {

/// All pieces, in the order of the data.
std::vector<DocumentPiece> cut_documents(const TokenSource& source, std::int64_t first, std::int64_t end,
                                         std::int64_t sequence_length) {
  std::vector<DocumentPiece> pieces;
  for (std::int64_t token = first; token < end;) {
    const std::int64_t behind = source.end_of_document(token);
    for (; token < behind; token += pieces.back().length) {
      const std::int64_t length = std::min(behind - token, sequence_length);
      pieces.push_back({token, static_cast<std::int32_t>(length), token + length == behind});
    }
  }
  return pieces;
}

/// The sequence of each piece, sequences being numbered as they are begun.
std::vector<std::size_t> best_fit(const std::vector<DocumentPiece>& pieces, std::int64_t sequence_length) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return pieces[a].length > pieces[b].length; });
  std::vector<std::size_t> sequence_of(pieces.size());
  std::map<std::int64_t, std::vector<std::size_t>> open;  // by the room that is left
  std::size_t begun = 0;
  for (const std::size_t piece : order) {
    const std::int64_t length = pieces[piece].length;
    std::int64_t room = sequence_length;
    if (const auto found = open.lower_bound(length); found != open.end()) {
      room = found->first;
      sequence_of[piece] = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) open.erase(found);
    } else {
      sequence_of[piece] = begun++;
    }
    if (room > length) open[room - length].push_back(sequence_of[piece]);
  }
  return sequence_of;
}

}  // namespace

PackedSequences::PackedSequences(const TokenSource& source, std::int64_t first, std::int64_t end,
                                 std::int64_t sequence_length) {
  const std::vector<DocumentPiece> pieces = cut_documents(source, first, end, sequence_length);
  const std::vector<std::size_t> begun_as = best_fit(pieces, sequence_length);
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> number(pieces.size(), kNone);  // of what was begun, by first tokens
  std::size_t sequences = 0;
  for (const std::size_t begun : begun_as)
    if (number[begun] == kNone) number[begun] = sequences++;
  first_piece_.assign(sequences + 1, 0);
  for (const std::size_t begun : begun_as) ++first_piece_[number[begun] + 1];
  std::partial_sum(first_piece_.begin(), first_piece_.end(), first_piece_.begin());
  std::vector<std::size_t> next(first_piece_.begin(), first_piece_.end() - 1);
  pieces_.resize(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces_[next[number[begun_as[i]]]++] = pieces[i];
}

std::span<const DocumentPiece> PackedSequences::pieces(std::int64_t sequence) const {
  const auto i = static_cast<std::size_t>(sequence);
  return std::span(pieces_).subspan(first_piece_[i], first_piece_[i + 1] - first_piece_[i]);
}

}  // namespace strata
