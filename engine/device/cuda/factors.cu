// Steps of factors: some numbers for each row and each column of a matrix, so one block takes them all. Sums
// are double and in a fixed order.
#include <algorithm>
#include <cstdint>

#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

constexpr int kFactorThreads = 512;

/// The sum over all threads of a block, on each of them.
__device__ double sum_over_block(double value) {
  __shared__ double sums[kFactorThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int width = kFactorThreads / 2; width > 0; width /= 2) {
    if (static_cast<int>(threadIdx.x) < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  const double sum = sums[0];
  __syncthreads();  // before the next sum
  return sum;
}

struct Factors {
  const std::uint32_t* skip;
  const DirectionCoefficients* step;
  std::int64_t rows, columns;  ///< no rows: a vector
  const float *row_squares, *column_squares;
  float *row_means, *column_means;
  float *row_factors, *column_factors, *column_weights;
};

/// Moves each mean towards `sums` · scale + epsilon; returns the means' mean.
__device__ double move_means(const DirectionCoefficients& step, const float* sums, float scale, float* means,
                             std::int64_t count) {
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kFactorThreads) {
    means[i] = step.keep_squares * means[i] + step.add_square * (sums[i] * scale + step.epsilon);
    total += means[i];
  }
  return sum_over_block(total) / static_cast<double>(count);
}

__global__ void __launch_bounds__(kFactorThreads) factor_step_kernel(Factors x) {
  const DirectionCoefficients& step = *x.step;
  const bool skips = *x.skip != 0;
  const float square = step.factored_scale * step.factored_scale;
  float mean = 0;
  if (!skips) {
    if (x.rows > 0) {
      mean = static_cast<float>(
          move_means(step, x.row_squares, square / static_cast<float>(x.columns), x.row_means, x.rows));
    }
    move_means(step, x.column_squares, x.rows > 0 ? square / static_cast<float>(x.rows) : square,
               x.column_means, x.columns);
  }
  // Each thread reads means that it has written itself.
  for (std::int64_t row = threadIdx.x; row < (x.rows > 0 ? x.rows : 1); row += kFactorThreads) {
    const float of_row = x.rows > 0 && !skips ? x.row_means[row] / mean : 1.0F;
    x.row_factors[row] = skips ? 0.0F : step.factored_scale / sqrtf(of_row);
  }
  for (std::int64_t column = threadIdx.x; column < x.columns; column += kFactorThreads) {
    const float of_column = skips ? 0.0F : 1.0F / x.column_means[column];
    x.column_weights[column] = of_column;
    x.column_factors[column] = sqrtf(of_column);
  }
}

__global__ void __launch_bounds__(kFactorThreads)
    row_step_kernel(const std::uint32_t* skip, const DirectionCoefficients* step, const float* squares,
                    std::int64_t rows, std::int64_t columns, float* means, float* factors) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kFactorThreads + threadIdx.x;
  if (row >= rows) return;
  if (*skip != 0) {
    factors[row] = 0;
    return;
  }
  const float scale = step->factored_scale * step->factored_scale / static_cast<float>(columns);
  const float mean = step->keep_squares * means[row] + step->add_square * (squares[row] * scale);
  means[row] = mean;
  factors[row] = step->factored_scale / (sqrtf(mean) + step->epsilon);
}

__global__ void __launch_bounds__(kFactorThreads)
    direction_limit_kernel(const DirectionCoefficients* step, bool normalizes, const float* squares,
                           std::int64_t rows, std::int64_t columns, float* factors) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kFactorThreads)
    sum += static_cast<double>(squares[row]) * factors[row] * factors[row];
  const auto root = static_cast<float>(
      sqrt(sum_over_block(sum) / (static_cast<double>(rows) * static_cast<double>(columns))));
  const float divisor = normalizes ? root + step->epsilon : fmaxf(1.0F, root / step->clip_threshold);
  for (std::int64_t row = threadIdx.x; row < rows; row += kFactorThreads) factors[row] /= divisor;
}

}  // namespace

void run_on_cuda(const CudaContext& context, const FactorStep& call) {
  launch(factor_step_kernel, dim3(1), dim3(kFactorThreads), 0, context.stream,
         Factors{.skip = call.skip,
                 .step = &call.step->direction,  // only an address, in the device's memory
                 .rows = call.row_means.columns,
                 .columns = call.column_means.columns,
                 .row_squares = rows_of<const float>(call.row_squares).data,
                 .column_squares = call.column_squares.row<const float>(0),
                 .row_means = rows_of<float>(call.row_means).data,
                 .column_means = call.column_means.row<float>(0),
                 .row_factors = call.row_factors.row<float>(0),
                 .column_factors = call.column_factors.row<float>(0),
                 .column_weights = call.column_weights.row<float>(0)});
}

void run_on_cuda(const CudaContext& context, const RowStep& call) {
  const std::int64_t rows = call.means.columns;
  launch(row_step_kernel, dim3(static_cast<unsigned>(divide_rounding_up(rows, kFactorThreads))),
         dim3(kFactorThreads), 0, context.stream, call.skip, &call.step->direction,
         call.squares.row<const float>(0), rows, call.columns, call.means.row<float>(0),
         call.row_factors.row<float>(0));
}

void run_on_cuda(const CudaContext& context, const DirectionLimit& call) {
  launch(direction_limit_kernel, dim3(1), dim3(kFactorThreads), 0, context.stream, &call.step->direction,
         call.normalizes, call.squares.row<const float>(0), call.row_factors.columns, call.columns,
         call.row_factors.row<float>(0));
}

}  // namespace strata
