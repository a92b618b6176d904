#include "engine/device/newton_schulz.h"

#include <algorithm>
#include <cassert>

#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

// The polynomial a·s + b·s³ + c·s⁵ of singular values, and how often it is applied: torch.optim.Muon's.
constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;
constexpr int kIterations = 5;
constexpr float kLeastNorm = 1e-7F;

/// What one matrix needs beside itself.
struct Workspace {
  /// `memory` may be null, if only `bytes` are asked for.
  Workspace(std::int64_t rows, std::int64_t columns, std::byte* memory) {
    const auto take = [&](Bytes wanted) {
      std::byte* taken = memory == nullptr ? nullptr : memory + bytes;
      bytes += align_up(wanted, Bytes{64});
      return taken;
    };
    const std::int64_t side = std::min(rows, columns);
    x = {take(rows * columns * size_of(DType::bf16)), DType::bf16, rows, columns};
    gram = {take(side * side * size_of(DType::bf16)), DType::bf16, side, side};
    update = {take(side * side * size_of(DType::bf16)), DType::bf16, side, side};
    sums = take(rows * columns * size_of(DType::fp32));  // of the matrix, or of a smaller product
    squares = reinterpret_cast<double*>(take(sizeof(double)));
  }

  Matrix sums_like(const Matrix& out) const { return {sums, DType::fp32, out.rows, out.columns}; }

  Matrix x;             ///< the matrix so far
  Matrix gram, update;  ///< x·xᵀ, or xᵀ·x if that is smaller, and b·gram + c·gram²
  std::byte* sums = nullptr;
  double* squares = nullptr;
  Bytes bytes = 0;
};

}  // namespace

Bytes orthogonalize_bytes(std::int64_t rows, std::int64_t columns) {
  return Workspace(rows, columns, nullptr).bytes;
}

double orthogonalize_flops(std::int64_t rows, std::int64_t columns) {
  const auto side = static_cast<double>(std::min(rows, columns)),
             other = static_cast<double>(std::max(rows, columns));
  return kIterations * (4 * side * side * other + 2 * side * side * side);
}

void orthogonalize(Kernels& kernels, const Matrix& matrix, std::byte* workspace) {
  assert(matrix.contiguous());
  const Workspace work(matrix.rows, matrix.columns, workspace);
  const Matrix& x = work.x;
  const bool is_wide = matrix.rows <= matrix.columns;
  kernels.run(Cast{matrix, x});
  kernels.run(SumOfSquares{{x.data, x.dtype, 1, x.elements()}, work.squares});
  kernels.run(DivideByNorm{x, work.squares, kLeastNorm, x});
  for (int i = 0; i < kIterations; ++i) {
    kernels.run(Product{x, !is_wide, x, is_wide, work.gram});
    const Matrix squared = work.sums_like(work.gram);
    kernels.run(Product{work.gram, false, work.gram, false, squared});
    kernels.run(Blend{work.gram, squared, kB, kC, work.update});
    const Matrix product = work.sums_like(x);
    kernels.run(is_wide ? Product{work.update, false, x, false, product}
                        : Product{x, false, work.update, false, product});
    kernels.run(Blend{x, product, kA, 1, x});
  }
  kernels.run(Cast{x, matrix});
}

}  // namespace strata
