#include "engine/device/cpu/packed_product.h"

#include <algorithm>

#include "base/vector_target.h"
#include "engine/device/cpu/conversion.h"
#include "engine/device/cpu/finish.h"
#include "engine/device/cpu/packed_kernels.h"
#include "engine/device/cpu/scratch.h"

namespace strata {
namespace {

/// The parts of a thread's scratch.
struct PackedOperands {
  PackedOperands(const TileProduct& p, std::byte* scratch) : pieces(scratch) {
    const std::int64_t columns = (p.n + kWidestPanel - 1) / kWidestPanel * kWidestPanel;
    a = pieces.take<float>(kPackedRows * kPackedRowStride);
    b = pieces.take<float>((kPackedDepth + 1) * columns);
    widened = pieces.take<float>(kWidestPanel * kPackedRowStride);
    bias = pieces.take<float>(columns);
    sums = p.out_dtype == DType::fp32 ? nullptr : pieces.take<float>(p.m * p.n);
  }
  Pieces pieces;
  float *a, *b, *widened, *bias, *sums;
};

/// An operand as it is stored, and whether that is transposed.
struct StoredOperand {
  Matrix all;
  bool transposed;

  Matrix part(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    return transposed ? all.row_slice(column, columns).column_slice(row, rows)
                      : all.row_slice(row, rows).column_slice(column, columns);
  }
};

StoredOperand stored(const void* data, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row,
                     std::int64_t column) {
  auto* bytes = const_cast<void*>(data);
  if (column == 1) return {{bytes, dtype, rows, columns, row}, false};
  return {{bytes, dtype, columns, rows, column}, true};
}

}  // namespace

bool packed_products_are_fastest() {
  return vector_target() == VectorTarget::avx2;
}

Bytes packed_scratch_bytes(const TileProduct& product) {
  return PackedOperands(product, nullptr).pieces.used();
}

void multiply_packed(const TileProduct& p, const void* a, const void* b, void* out, const void* bias,
                     std::byte* scratch) {
  const PackedOperands memory(p, scratch);
  const StoredOperand first = stored(a, p.dtype, p.m, p.k, p.a_row, p.a_column);
  const StoredOperand second = stored(b, p.dtype, p.k, p.n, p.b_row, p.b_column);
  const Matrix bias_vector(const_cast<void*>(bias), p.dtype, 1, p.n);
  const Matrix sums = memory.sums == nullptr ? Matrix(out, DType::fp32, p.m, p.n, p.out_row)
                                             : Matrix(memory.sums, DType::fp32, p.m, p.n);
  const bool bias_in_sums = bias != nullptr && memory.sums == nullptr;
  if (bias_in_sums) convert(bias_vector, {memory.bias, DType::fp32, 1, p.n});
  for (std::int64_t k = 0; k == 0 || k < p.k; k += kPackedDepth) {
    const std::int64_t depth = std::min(kPackedDepth, p.k - k);
    pack_second(second.part(k, depth, 0, p.n), second.transposed, memory.widened, memory.b);
    for (std::int64_t row = 0; row < p.m; row += kPackedRows) {
      const std::int64_t rows = std::min(kPackedRows, p.m - row);
      pack_first(first.part(row, rows, k, depth), first.transposed, memory.widened, memory.a);
      multiply_block({.transposed = first.transposed,
                      .a = memory.a,
                      .b = memory.b,
                      .rows = rows,
                      .columns = p.n,
                      .depth = depth,
                      .bias = bias_in_sums && k == 0 ? memory.bias : nullptr,
                      .accumulate = k > 0 || (p.accumulate && memory.sums == nullptr),
                      .out = sums.row<float>(row),
                      .out_stride = sums.stride});
    }
  }
  if (memory.sums != nullptr) {
    finish_block(sums, bias == nullptr ? Matrix() : bias_vector, p.accumulate,
                 {out, p.out_dtype, p.m, p.n, p.out_row});
  }
}

}  // namespace strata
