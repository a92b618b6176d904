// Which tokens of a sequence a rank has if sequences are split over several (context parallelism). Each has
// two stretches, one from the sequence's beginning and one from its end, so that under a causal mask all have
// equally much to do. Values.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata {

/// Positions of rows that stand in their order, in two halves: row t is at first + t, those of the second
/// half `gap` further on. By default row t is at t.
struct Positions {
  std::int64_t rows = 0, first = 0, gap = 0;

  constexpr std::int64_t at(std::int64_t row) const { return first + row + (row < rows / 2 ? 0 : gap); }
  /// How many rows are at positions below `end`.
  constexpr std::int64_t below(std::int64_t end) const {
    const std::int64_t half = rows / 2, front = std::clamp<std::int64_t>(end - first, 0, half);
    return front + std::clamp<std::int64_t>(end - first - half - gap, 0, rows - half);
  }
  friend constexpr bool operator==(const Positions&, const Positions&) = default;
};

/// Rank number `rank` of `ranks`: of 2 · ranks stretches it has number `rank`, and the same from the end.
struct ContextPart {
  std::int64_t ranks = 1, rank = 0;

  /// The positions of its `rows` rows of a sequence. REQUIRES: they divide by two if there are several ranks.
  constexpr Positions positions(std::int64_t rows) const {
    const std::int64_t half = rows / 2;
    return {rows, rank * half, ranks == 1 ? 0 : 2 * (ranks - 1 - rank) * half};
  }
  /// Whose keys it has behind `steps` steps of a ring, in which each rank sends to the next.
  constexpr ContextPart behind(std::int64_t steps) const {
    return {ranks, (rank + ranks - steps % ranks) % ranks};
  }
  friend constexpr bool operator==(const ContextPart&, const ContextPart&) = default;
};

}  // namespace strata
