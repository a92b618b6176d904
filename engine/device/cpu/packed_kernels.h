// What a packed product (packed_product.h) is made of: its operands in packed order, and the sums of a block
// of them. Compiled for every instruction set. Single-threaded.
#pragma once

#include <cstdint>

#include "engine/device/matrix.h"

namespace strata {

/// Depth that is packed at once, so that a few columns of it stay in the first-level cache.
constexpr std::int64_t kPackedDepth = 384;
/// Rows of the first operand that are packed at once: with kPackedDepth they fill a part of the second-level
/// cache.
constexpr std::int64_t kPackedRows = 192;
/// Between packed rows of the first operand, so that rows do not fall into the same sets of a cache.
constexpr std::int64_t kPackedRowStride = kPackedDepth + 16;
/// The widest panel of any instruction set, in floats.
constexpr std::int64_t kWidestPanel = 32;

/// The first operand's rows, or sixes of rows of each depth if it is `transposed`: stored as [depth,
/// rows]. `widened` has room for kPackedRows, `to` for kPackedRows rows. REQUIRES: no more than these and
/// kPackedDepth.
void pack_first(const Matrix& from, bool transposed, float* widened, float* to);

/// The second operand as panels of some columns, depth by depth; columns that do not exist are zeros.
/// `transposed`: it is stored as [columns, depth]. `widened` has room for kWidestPanel rows, `to` for a whole
/// number of widest panels.
void pack_second(const Matrix& from, bool transposed, float* widened, float* to);

/// out = a · b (+ bias) (+ out), all fp32.
struct PackedBlock {
  bool transposed = false;  ///< how `a` was packed
  const float *a = nullptr, *b = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  const float* bias = nullptr;  ///< whole panels of it, or null
  bool accumulate = false;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
void multiply_block(const PackedBlock& block);

}  // namespace strata
