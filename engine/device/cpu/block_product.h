// The innermost matrix product: a few rows times a packed panel of 64 columns, on one thread, in fp32
// accumulators that stay in registers over the whole depth. Attention is made of these: its products are too
// small for a library call each, and its right operands are formed in packed order. One order of summation:
// over depth, ascending, whatever the rows, columns or threads. Operands are fp32 or bf16; fp16 becomes fp32
// when it is packed.
//
// A panel holds `depth` rows of 64 columns. fp32: row after row. bf16: pairs of rows, interleaved, so that
// two products fall into one 32-bit lane; an odd depth is padded with a row of zeros. Columns that do not
// exist are zeros.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/dtype.h"

namespace strata {

constexpr std::int64_t kPanelColumns = 64;
/// Rows that one pass over a panel serves; a multiple of it wastes nothing.
constexpr std::int64_t kBlockRows = 6;

/// The dtype of packed operands of `dtype`.
constexpr DType packed_dtype(DType dtype) {
  return dtype == DType::fp16 ? DType::fp32 : dtype;
}
/// Depth rounded to whole pairs in bf16. Here and below, `dtype` is a packed one.
constexpr std::int64_t padded_depth(DType dtype, std::int64_t depth) {
  return dtype == DType::bf16 ? (depth + 1) / 2 * 2 : depth;
}
constexpr std::int64_t panel_count(std::int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}
constexpr Bytes panel_bytes(DType dtype, std::int64_t depth) {
  return padded_depth(dtype, depth) * kPanelColumns * size_of(dtype);
}

/// out[rows, 64] = a[rows, depth] · panel (+ out if accumulate). `a` and the panel are of one dtype.
struct BlockProduct {
  const void* a = nullptr;    ///< row-major; each row has padded_depth() readable, finite elements
  std::int64_t a_stride = 0;  ///< elements
  const void* panel = nullptr;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  float* out = nullptr;         ///< all 64 columns are written
  std::int64_t out_stride = 0;  ///< elements
  bool accumulate = false;
};

using BlockProductFunction = void (*)(const BlockProduct&);

/// The fastest implementation that this machine can run.
BlockProductFunction block_product_for(DType dtype);
/// Portable vector code: what block_product_for falls back to, and what tests compare with.
BlockProductFunction portable_block_product_for(DType dtype);
/// AVX-512 BF16 dot products, or null if the machine or the compiler's target has none.
BlockProductFunction avx512_bf16_block_product();

}  // namespace strata
