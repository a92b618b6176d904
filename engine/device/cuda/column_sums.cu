// A block adds the rows of a tile of columns: its threads stand 16 across and 16 down, and each adds every
// 16th row. Many rows are cut into chunks, whose sums the same kernel then adds.
#include "engine/device/cuda/column_sums.h"

#include <algorithm>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

constexpr int kSumSide = 16;                     ///< threads across, and down
constexpr std::int64_t kMinChunkRows = 64;       ///< four for each thread
constexpr std::int64_t kWantedSumBlocks = 1056;  ///< 8 on each of 132 multiprocessors

/// sums[chunk, column] = the sum of the chunk's rows, or is increased by it.
template <typename T>
struct ColumnSums {
  Rows<const T> x;
  Rows<const T> times;  ///< null, or by what x is multiplied before it is added
  std::int64_t rows, columns, chunk_rows;
  const float* factors;  ///< optional, of the sums
  float* sums;
  bool increase;
};

/// Adds elements [column, column + width) of a row, or as many as there are; or products of two rows'.
template <int width, bool has_products, typename T>
__device__ __forceinline__ void add_run(const T* row, const T* times, std::int64_t column,
                                        std::int64_t columns, float (&sum)[width]) {
  if (column + width <= columns) {
    float values[width], factors[width];
    to_floats(load_run<width>(row + column), values);
    if constexpr (has_products) to_floats(load_run<width>(times + column), factors);
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] += has_products ? values[i] * factors[i] : values[i];
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (column + i >= columns) continue;
      const float value = to_float(row[column + i]);
      sum[i] += has_products ? value * to_float(times[column + i]) : value;
    }
  }
}

template <int width, bool has_products, typename T>
__device__ __forceinline__ void sum_columns(const ColumnSums<T>& x) {
  constexpr int kTile = kSumSide * width;
  const std::int64_t tile = std::int64_t{blockIdx.x} * kTile;
  const std::int64_t first_row = blockIdx.y * x.chunk_rows;
  const std::int64_t last_row = std::min(x.rows, first_row + x.chunk_rows);
  float sum[width] = {};
#pragma unroll 4
  for (std::int64_t row = first_row + threadIdx.y; row < last_row; row += kSumSide) {
    add_run<width, has_products>(x.x.row(row), x.times.row(row), tile + threadIdx.x * width, x.columns, sum);
  }
  __shared__ float sums[kSumSide][kTile];
#pragma unroll
  for (int i = 0; i < width; ++i) sums[threadIdx.y][threadIdx.x * width + i] = sum[i];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.y * kSumSide + threadIdx.x);
  if (own >= kTile || tile + own >= x.columns) return;
  float total = sums[0][own];
#pragma unroll
  for (int i = 1; i < kSumSide; ++i) total += sums[i][own];
  if (x.factors != nullptr) total *= x.factors[tile + own];
  float& target = x.sums[blockIdx.y * x.columns + tile + own];
  target = x.increase ? target + total : total;
}

template <int width, typename T>
__global__ void __launch_bounds__(kSumSide* kSumSide) column_sums_kernel(ColumnSums<T> x) {
  sum_columns<width, false>(x);
}

template <int width, typename T>
__global__ void __launch_bounds__(kSumSide* kSumSide) column_dots_kernel(ColumnSums<T> x) {
  sum_columns<width, true>(x);
}

template <int width, typename T>
void launch_column_sums(const CudaContext& context, const ColumnSums<T>& x) {
  const dim3 grid(static_cast<unsigned>(divide_rounding_up(x.columns, kSumSide * width)),
                  static_cast<unsigned>(divide_rounding_up(x.rows, x.chunk_rows)));
  const auto kernel = x.times.data == nullptr ? column_sums_kernel<width, T> : column_dots_kernel<width, T>;
  launch(kernel, grid, dim3(kSumSide, kSumSide), 0, context.stream, x);
}

template <typename T>
void run_column_sums(const CudaContext& context, const ColumnSums<T>& x) {
  constexpr int kWidth = 16 / sizeof(T);
  if (is_aligned<kWidth>(x.x) && is_aligned<kWidth>(x.times)) {
    launch_column_sums<kWidth>(context, x);
  } else {
    launch_column_sums<1>(context, x);
  }
}

/// Rows of one block. Depends on the shape only, and so do the sums' bits.
std::int64_t chunk_rows_of(const Matrix& x) {
  const std::int64_t tiles = divide_rounding_up(x.columns, kSumSide * 16 / size_of(x.dtype));
  return std::max(kMinChunkRows, divide_rounding_up(x.rows, divide_rounding_up(kWantedSumBlocks, tiles)));
}

/// sums[1,n] += factors · sum over rows of x · times; `times` and `factors` may be left out.
struct SumOfColumns {
  const Matrix &x, &times, &factors, &sums;
};

Bytes partial_bytes(const Matrix& x) {
  if (x.elements() == 0) return 0;
  const std::int64_t chunks = divide_rounding_up(x.rows, chunk_rows_of(x));
  return chunks > 1 ? chunks * x.columns * size_of(DType::fp32) : 0;
}

void add_partial_sums(const CudaContext& context, const Matrix& x, const float* factors, const Matrix& sums) {
  run_column_sums<float>(context, {.x = rows_of<const float>(x),
                                   .times = {nullptr, 0},
                                   .rows = x.rows,
                                   .columns = x.columns,
                                   .chunk_rows = x.rows,
                                   .factors = factors,
                                   .sums = sums.row<float>(0),
                                   .increase = true});
}

void add_columns(const CudaContext& context, const SumOfColumns& call) {
  const Matrix& x = call.x;
  if (x.elements() == 0) return;
  const std::int64_t chunk_rows = chunk_rows_of(x);
  const std::int64_t chunks = divide_rounding_up(x.rows, chunk_rows);
  const float* factors = rows_of<const float>(call.factors).data;
  Matrix partial(call.sums.data, DType::fp32, 1, x.columns);
  if (chunks > 1) partial = {context.scratch.at_least(partial_bytes(x)), DType::fp32, chunks, x.columns};
  with_storage_type(x.dtype, [&](auto element) {
    using T = decltype(element);
    run_column_sums<T>(context, {.x = rows_of<const T>(x),
                                 .times = rows_of<const T>(call.times),
                                 .rows = x.rows,
                                 .columns = x.columns,
                                 .chunk_rows = chunk_rows,
                                 .factors = chunks == 1 ? factors : nullptr,
                                 .sums = partial.row<float>(0),
                                 .increase = chunks == 1});
  });
  if (chunks > 1) add_partial_sums(context, partial, factors, call.sums);
}

}  // namespace

void add_partial_sums_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& gradient) {
  add_partial_sums(context, x, nullptr, gradient);
}

Bytes scratch_on_cuda(const ColumnSum& call) {
  return partial_bytes(call.x);
}
Bytes scratch_on_cuda(const ColumnDots& call) {
  return partial_bytes(call.a);
}

void run_on_cuda(const CudaContext& context, const ColumnSum& call) {
  add_columns(context, {call.x, Matrix(), Matrix(), call.gradient});
}
void run_on_cuda(const CudaContext& context, const ColumnDots& call) {
  add_columns(context, {call.a, call.b, call.factors, call.sums});
}

}  // namespace strata
