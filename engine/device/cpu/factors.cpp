// Steps of factors: some numbers for each row and each column of a matrix, so one thread takes them all. Sums
// are double and in order.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/device/cpu/context.h"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

/// Moves each mean towards `sums` · scale + epsilon; returns the means' mean.
double move_means(const DirectionCoefficients& step, const Matrix& sums, float scale, const Matrix& means) {
  const auto* sum = sums.row<const float>(0);
  auto* mean = means.row<float>(0);
  double total = 0;
  for (std::int64_t i = 0; i < means.columns; ++i) {
    mean[i] = step.keep_squares * mean[i] + step.add_square * (sum[i] * scale + step.epsilon);
    total += mean[i];
  }
  return total / static_cast<double>(means.columns);
}

void fill(const Matrix& row, float value) {
  std::fill_n(row.row<float>(0), row.columns, value);
}

}  // namespace

void run_on_cpu(CpuContext& /*context*/, const FactorStep& call) {
  if (*call.skip != 0) {
    for (const Matrix* factors : {&call.row_factors, &call.column_factors, &call.column_weights})
      fill(*factors, 0);
    return;
  }
  const DirectionCoefficients& step = call.step->direction;
  const std::int64_t rows = call.row_means.columns, columns = call.column_means.columns;
  const float square = step.factored_scale * step.factored_scale;
  if (rows == 0) {
    move_means(step, call.column_squares, square, call.column_means);
    fill(call.row_factors, step.factored_scale);
  } else {
    const double mean =
        move_means(step, call.row_squares, square / static_cast<float>(columns), call.row_means);
    move_means(step, call.column_squares, square / static_cast<float>(rows), call.column_means);
    const auto of_mean = static_cast<float>(mean);
    std::transform(call.row_means.row<const float>(0), call.row_means.row<const float>(0) + rows,
                   call.row_factors.row<float>(0),
                   [&](float row) { return step.factored_scale / std::sqrt(row / of_mean); });
  }
  for (std::int64_t column = 0; column < columns; ++column) {
    const float mean = call.column_means.row<const float>(0)[column];
    call.column_weights.row<float>(0)[column] = 1 / mean;
    call.column_factors.row<float>(0)[column] = 1 / std::sqrt(mean);
  }
}

void run_on_cpu(CpuContext& /*context*/, const RowStep& call) {
  if (*call.skip != 0) return fill(call.row_factors, 0);
  const DirectionCoefficients& step = call.step->direction;
  const float scale = step.factored_scale * step.factored_scale / static_cast<float>(call.columns);
  const auto* squares = call.squares.row<const float>(0);
  auto* means = call.means.row<float>(0);
  auto* factors = call.row_factors.row<float>(0);
  for (std::int64_t row = 0; row < call.means.columns; ++row) {
    means[row] = step.keep_squares * means[row] + step.add_square * (squares[row] * scale);
    factors[row] = step.factored_scale / (std::sqrt(means[row]) + step.epsilon);
  }
}

void run_on_cpu(CpuContext& /*context*/, const DirectionLimit& call) {
  const std::int64_t rows = call.row_factors.columns;
  const auto* squares = call.squares.row<const float>(0);
  auto* factors = call.row_factors.row<float>(0);
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    sum += static_cast<double>(squares[row]) * factors[row] * factors[row];
  const auto root = static_cast<float>(std::sqrt(sum / static_cast<double>(rows * call.columns)));
  const DirectionCoefficients& step = call.step->direction;
  const float divisor = call.normalizes ? root + step.epsilon : std::max(1.0F, root / step.clip_threshold);
  std::transform(factors, factors + rows, factors, [&](float factor) { return factor / divisor; });
}

}  // namespace strata
