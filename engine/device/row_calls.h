// Calls that look rows of tables up, and add and move rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/device/kernel_call.h"
#include "engine/device/places.h"

namespace strata {

/// Stands in a list of rows, behind all others, where there is none: no vocabulary is larger.
constexpr std::int32_t kNoRow = 1 << 30;

/// The first row of a table that has a stretch of rows. Nothing: the table has all rows.
using FirstRow = std::optional<std::int32_t>;

/// out[i,:] = table[tokens[i],:] (+ positions[i mod sequence,:], or positions[places[i],:], if given).
struct EmbeddingForward {
  std::span<const std::int32_t> tokens;
  Matrix table;
  Matrix positions = {};  ///< optional [at least sequence, columns]; with places a row for each place
  std::int64_t sequence = 0;
  Matrix out;               ///< [tokens, columns]
  FirstRow first_row = {};  ///< rows that the table lacks count as zeros
  Places places = {};

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, table, positions, out, places);
  }
};

/// Adds the gradient of each looked-up row to its row of the table and to that of the positions, in token
/// order; either may be left out.
struct EmbeddingBackward {
  std::span<const std::int32_t> tokens;
  std::int64_t sequence = 0;
  Matrix out_gradient;                  ///< [tokens, hidden]
  Matrix table_gradient;                ///< optional, fp32
  Matrix positions_gradient;            ///< optional, fp32
  std::int32_t padding_token = kNoRow;  ///< nothing is added to its row of the table: torch's padding_idx
  FirstRow first_row = {};              ///< rows that the table lacks get nothing
  Places places = {};                   ///< as in the forward

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, tokens, out_gradient, table_gradient, positions_gradient, places);
  }
};

/// out[i,:] = x[rows[i],:] in out's dtype (round to nearest even), or zeros for kNoRow.
struct RowCopy {
  Matrix x;
  std::span<const std::int32_t> rows;
  Matrix out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, rows, out);
  }
};

/// The sum of tables, from the rows that are not zero, which every rank has sent. It has the bits of adding
/// whole tables in the order of ranks, in fp32, rounded once.
struct RowSum {
  std::int64_t ranks = 1;
  std::span<const std::int32_t>
      rows;                ///< [ranks · n]: of each rank n different ones, ascending, kNoRow behind them
  Matrix values;           ///< [ranks · n, columns]: what stands in them
  std::int64_t first = 0;  ///< element of the table, row-major, with which `out` begins
  Matrix out;              ///< [1, elements], dtype of values; elements that lie behind the table become zero

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, rows, values, out);
  }
};

}  // namespace strata
