// Copies of matrix operands in the order in which block products read them, and in the dtype: that of the
// operand, but fp32 for fp16. Single-threaded: callers split the work.
#pragma once

#include <cstdint>

#include "engine/device/matrix.h"

namespace strata {

/// One panel (block_product.h) from the operand's `depth` × `columns` part that starts at `source`, columns
/// ≤ 64. transposed: the operand is stored as [columns, depth]. Depth and columns that do not exist are
/// zeros.
struct PanelSource {
  const void* source = nullptr;
  DType dtype = DType::fp32;
  std::int64_t stride = 0;  ///< elements between stored rows
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  bool transposed = false;
};
void pack_panel(const PanelSource& source, void* panel);

/// to[columns, padded_depth(depth)] = from[depth, columns] transposed; the padding is zero.
void pack_transposed(const Matrix& from, void* to, std::int64_t to_stride);

/// to[rows, padded_depth(depth)] = from[rows, depth]; the padding is zero.
void pack_rows(const Matrix& from, void* to, std::int64_t to_stride);

}  // namespace strata
