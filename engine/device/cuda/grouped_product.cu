// Products of groups of rows with a matrix each, in plain fp32 arithmetic. How many rows a group has is known
// on the device only: there are as many blocks as any split of the rows needs, and each finds its tile.
#include <cassert>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/expert_calls.h"

namespace strata {
namespace {

constexpr int kProductTile = 64;   ///< rows and columns of the output that a block computes
constexpr int kProductDepth = 16;  ///< of the operands that are in shared memory at a time
constexpr int kProductPart = 4;    ///< rows and columns of a thread
constexpr int kProductThreads = (kProductTile / kProductPart) * (kProductTile / kProductPart);

/// Calls store(row, column, Σ a(row, k) · b(k, column)) for the thread's places of a tile, k ascending.
template <typename A, typename B, typename Store>
__device__ void multiply_grouped_tile(std::int64_t depth, const A& a, const B& b, const Store& store) {
  __shared__ float of_a[kProductDepth][kProductTile + 1], of_b[kProductDepth][kProductTile + 1];
  const int row = static_cast<int>(threadIdx.x) / (kProductTile / kProductPart) * kProductPart;
  const int column = static_cast<int>(threadIdx.x) % (kProductTile / kProductPart) * kProductPart;
  float sums[kProductPart][kProductPart] = {};
  for (std::int64_t first = 0; first < depth; first += kProductDepth) {
    const int count = static_cast<int>(depth - first < kProductDepth ? depth - first : kProductDepth);
    for (int i = static_cast<int>(threadIdx.x); i < count * kProductTile; i += kProductThreads) {
      of_a[i / kProductTile][i % kProductTile] = a(i % kProductTile, first + i / kProductTile);
      of_b[i / kProductTile][i % kProductTile] = b(first + i / kProductTile, i % kProductTile);
    }
    __syncthreads();
    for (int k = 0; k < count; ++k) {
#pragma unroll
      for (int i = 0; i < kProductPart; ++i) {
#pragma unroll
        for (int j = 0; j < kProductPart; ++j) sums[i][j] += of_a[k][row + i] * of_b[k][column + j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kProductPart; ++i) {
#pragma unroll
    for (int j = 0; j < kProductPart; ++j) store(row + i, column + j, sums[i][j]);
  }
}

template <typename T>
struct GroupedOperands {
  const std::int32_t* offsets;
  std::int64_t groups, k, n;
  bool transpose_b;
  Rows<const T> a, b;
  Rows<T> out;
};

/// Rows [first, last) of a group; no group: first == last.
struct GroupTile {
  std::int64_t group, first, last;
};
__device__ GroupTile find_group_tile(const std::int32_t* offsets, std::int64_t groups, std::int64_t index) {
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t begin = offsets[g], end = offsets[g + 1];
    const std::int64_t tiles = divide_rounding_up(end - begin, kProductTile);
    if (index < tiles) {
      const std::int64_t first = begin + index * kProductTile;
      return {g, first, first + kProductTile < end ? first + kProductTile : end};
    }
    index -= tiles;
  }
  return {0, 0, 0};
}

template <typename T>
__global__ void __launch_bounds__(kProductThreads) grouped_product_kernel(GroupedOperands<T> x) {
  const GroupTile tile = find_group_tile(x.offsets, x.groups, blockIdx.x);
  if (tile.first == tile.last) return;  // with its whole block
  const std::int64_t left = std::int64_t{blockIdx.y} * kProductTile;
  const std::int64_t first_of_b = tile.group * (x.transpose_b ? x.n : x.k);
  multiply_grouped_tile(
      x.k,
      [&](int row, std::int64_t k) {
        return tile.first + row < tile.last ? to_float(x.a.row(tile.first + row)[k]) : 0.0F;
      },
      [&](std::int64_t k, int column) {
        if (left + column >= x.n) return 0.0F;
        return to_float(x.transpose_b ? x.b.row(first_of_b + left + column)[k]
                                      : x.b.row(first_of_b + k)[left + column]);
      },
      [&](int row, int column, float sum) {
        if (tile.first + row < tile.last && left + column < x.n)
          x.out.row(tile.first + row)[left + column] = from_float<T>(sum);
      });
}

template <typename T>
struct GroupedGradientOperands {
  const std::int32_t* offsets;
  std::int64_t m, n;
  Rows<const T> a, b;
  Rows<float> gradient;
};

/// A tile of one group's gradient per block.
template <typename T>
__global__ void __launch_bounds__(kProductThreads) grouped_gradient_kernel(GroupedGradientOperands<T> x) {
  const std::int64_t group = blockIdx.z, left = std::int64_t{blockIdx.x} * kProductTile,
                     top = std::int64_t{blockIdx.y} * kProductTile;
  const std::int64_t first = x.offsets[group], rows = x.offsets[group + 1] - first;
  multiply_grouped_tile(
      rows,
      [&](int row, std::int64_t k) {
        return top + row < x.m ? to_float(x.a.row(first + k)[top + row]) : 0.0F;
      },
      [&](std::int64_t k, int column) {
        return left + column < x.n ? to_float(x.b.row(first + k)[left + column]) : 0.0F;
      },
      [&](int row, int column, float sum) {
        if (rows > 0 && top + row < x.m && left + column < x.n)
          x.gradient.row(group * x.m + top + row)[left + column] += sum;
      });
}

unsigned tiles_of(std::int64_t extent) {
  return static_cast<unsigned>(divide_rounding_up(extent, kProductTile));
}

}  // namespace

void run_on_cuda(const CudaContext& context, const GroupedProduct& product) {
  const auto& [offsets, a, b, transpose_b, out] = product;
  const auto groups = static_cast<std::int64_t>(offsets.size()) - 1;
  assert(b.rows == groups * (transpose_b ? out.columns : a.columns));
  if (out.elements() == 0) return;
  with_storage_type(out.dtype, [&](auto element) {
    using T = decltype(element);
    const GroupedOperands<T> x = {.offsets = product.offsets.data(),
                                  .groups = groups,
                                  .k = product.a.columns,
                                  .n = product.out.columns,
                                  .transpose_b = product.transpose_b,
                                  .a = rows_of<const T>(product.a),
                                  .b = rows_of<const T>(product.b),
                                  .out = rows_of<T>(product.out)};
    // A group's last tile may be short: at most one more than its rows fill.
    const dim3 grid(static_cast<unsigned>(product.out.rows / kProductTile + groups),
                    tiles_of(product.out.columns));
    launch(grouped_product_kernel<T>, grid, dim3(kProductThreads), 0, context.stream, x);
  });
}

void run_on_cuda(const CudaContext& context, const GroupedWeightGradient& product) {
  const auto groups = static_cast<std::int64_t>(product.offsets.size()) - 1;
  assert(product.gradient.rows == groups * product.a.columns);
  if (product.gradient.elements() == 0) return;
  with_storage_type(product.a.dtype, [&](auto element) {
    using T = decltype(element);
    const GroupedGradientOperands<T> x = {.offsets = product.offsets.data(),
                                          .m = product.a.columns,
                                          .n = product.b.columns,
                                          .a = rows_of<const T>(product.a),
                                          .b = rows_of<const T>(product.b),
                                          .gradient = rows_of<float>(product.gradient)};
    const dim3 grid(tiles_of(x.n), tiles_of(x.m), static_cast<unsigned>(groups));
    launch(grouped_gradient_kernel<T>, grid, dim3(kProductThreads), 0, context.stream, x);
  });
}

}  // namespace strata
