// What the forward and the backward pass of blocked attention share: which keys a token sees, and operands of
// one head.
#pragma once

#include <algorithm>

#include "base/nth.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/block_product.h"
#include "engine/device/cpu/packing.h"
#include "engine/device/kernels.h"

namespace strata {

/// Queries that are handled together; they meet the keys panel by panel.
constexpr std::int64_t kQueryRows = 64;

/// Keys [first, last) that token `query` of a sequence sees, where `places` are the sequence's or none. Keys
/// stand in the order of their positions, and so do queries: neither end ever falls from one query to the
/// next.
struct VisibleKeys {
  std::int64_t first;
  std::int64_t last;
};
inline VisibleKeys visible_keys(const AttentionShape& shape, const Places& places, std::int64_t query) {
  const Positions keys = shape.keys();
  const std::int64_t position = shape.queries().at(query);
  std::int64_t reach = shape.window > 0 ? shape.window - 1 : position;
  if (!places.empty()) reach = std::min<std::int64_t>(reach, nth(places, query));
  return {keys.below(position - reach), keys.below(position + 1)};
}

/// Those of one sequence.
inline Places places_of(const Places& all, const AttentionShape& shape, std::int64_t batch) {
  return all.empty() ? all : slice(all, batch * shape.sequence, shape.sequence);
}

/// Rows of one sequence and columns of one head.
inline Matrix head_of(const Matrix& x, const AttentionShape& shape, std::int64_t batch, std::int64_t head) {
  return x.row_slice(batch * shape.sequence, shape.sequence)
      .column_slice(head * shape.head_dimension, shape.head_dimension);
}

/// Panels over the rows of x (its transpose as right operand): for products with keys or values along the
/// columns.
inline void pack_row_panels(const Matrix& x, std::byte* panels) {
  for (std::int64_t row = 0; row < x.rows; row += kPanelColumns) {
    pack_panel({.source = x.row_slice(row, 1).data,
                .dtype = x.dtype,
                .stride = x.stride,
                .depth = x.columns,
                .columns = std::min(kPanelColumns, x.rows - row),
                .transposed = true},
               panels + row / kPanelColumns * panel_bytes(packed_dtype(x.dtype), x.columns));
  }
}

/// Panels over the columns of x: for products with keys along the depth.
inline void pack_column_panels(const Matrix& x, std::byte* panels) {
  for (std::int64_t column = 0; column < x.columns; column += kPanelColumns) {
    pack_panel({.source = x.column_slice(column, 1).data,
                .dtype = x.dtype,
                .stride = x.stride,
                .depth = x.rows,
                .columns = std::min(kPanelColumns, x.columns - column),
                .transposed = false},
               panels + column / kPanelColumns * panel_bytes(packed_dtype(x.dtype), x.rows));
  }
}

}  // namespace strata
