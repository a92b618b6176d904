// Which ranks have sent which rows of a table, and where: for kernels of every device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/device/kernels.h"
#include "engine/device/row_calls.h"

namespace strata {

/// The lists of RowSum::rows.
struct RowLists {
  const std::int32_t* rows;
  std::int64_t ranks;
  std::int64_t length;  ///< of each rank's list

  /// Where the rank's `row` stands among all lists, or -1.
  constexpr std::int64_t find(std::int64_t rank, std::int32_t row) const {
    std::int64_t first = rank * length, count = length;
    while (count > 0) {
      const std::int64_t half = count / 2;
      if (rows[first + half] < row) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first < (rank + 1) * length && rows[first] == row ? first : -1;
  }

  /// Whether a row stands there that no rank before has.
  constexpr bool is_first(std::int64_t place) const {
    if (rows[place] == kNoRow) return false;
    for (std::int64_t rank = 0; rank < place / length; ++rank)
      if (find(rank, rows[place]) >= 0) return false;
    return true;
  }
};

/// Columns [column, column + count) of a row, which are the elements from `at` on of a stretch of the table.
struct RowPart {
  std::int64_t column, count, at;
};

/// What of the row lies in elements [first, first + elements) of its table; nothing: count 0.
constexpr RowPart part_of_row(std::int64_t row, std::int64_t columns, std::int64_t first,
                              std::int64_t elements) {
  const std::int64_t begin = std::max(row * columns, first);
  const std::int64_t end = std::min((row + 1) * columns, first + elements);
  return {begin - row * columns, std::max(end - begin, std::int64_t{0}), begin - first};
}

}  // namespace strata
