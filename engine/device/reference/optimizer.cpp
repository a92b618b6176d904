#include <algorithm>
#include <cmath>

#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"
#include "engine/device/state_calls.h"
#include "optim/momentum.h"
#include "optim/update.h"

namespace strata {
using namespace reference;

void run_on_reference(const ParameterUpdate& update) {
  expect(update.state.format.master == MasterFormat::fp32 || update.state.precision == DType::bf16,
         "no fp32 master but of a bf16 parameter");
  if (*update.skip != 0) return round_masters(update.state);
  update_reference(*update.step, update.state,
                   update.average == nullptr ? AverageCoefficients() : *update.average);
}

void run_on_reference(const MomentumMix& call) {
  expect(is_shape(call.direction, 1, call.state.elements) && call.direction.dtype == call.state.precision,
         "a direction like the gradient");
  if (*call.skip == 0) mix_momentum_reference(*call.step, call.state, call.direction.data);
}

void run_on_reference(const FactorStep& call) {
  const std::int64_t rows = call.row_squares.columns, columns = call.column_squares.columns;
  const bool is_vector = rows == 0;
  expect(is_fp32(call.column_means, 1, columns) && is_fp32(call.column_factors, 1, columns) &&
             is_fp32(call.column_weights, 1, columns),
         "fp32 numbers of each column");
  expect(is_fp32(call.row_factors, 1, is_vector ? 1 : rows), "an fp32 factor of each row");
  const DirectionCoefficients& step = call.step->direction;
  const bool skips = *call.skip != 0;
  const double square = static_cast<double>(step.factored_scale) * step.factored_scale;
  const auto add = [&](const Matrix& means, const Matrix& sums, double count) {
    double total = 0;
    for (std::int64_t i = 0; i < means.columns; ++i) {
      const double mean = load(sums, 0, i) * square / count + step.epsilon;
      if (!skips) store(means, 0, i, step.keep_squares * load(means, 0, i) + step.add_square * mean);
      total += load(means, 0, i);
    }
    return total / static_cast<double>(means.columns);
  };
  const double mean = is_vector ? 1 : add(call.row_means, call.row_squares, static_cast<double>(columns));
  add(call.column_means, call.column_squares, is_vector ? 1 : static_cast<double>(rows));
  for (std::int64_t row = 0; row < call.row_factors.columns; ++row) {
    const double of_row = is_vector ? 1 : load(call.row_means, 0, row) / mean;
    store(call.row_factors, 0, row, skips ? 0 : step.factored_scale / std::sqrt(of_row));
  }
  for (std::int64_t column = 0; column < columns; ++column) {
    const double weight = skips ? 0 : 1 / load(call.column_means, 0, column);
    store(call.column_weights, 0, column, weight);
    store(call.column_factors, 0, column, std::sqrt(weight));
  }
}

void run_on_reference(const RowStep& call) {
  const std::int64_t rows = call.means.columns;
  expect(is_fp32(call.squares, 1, rows) && is_fp32(call.means, 1, rows) && is_fp32(call.row_factors, 1, rows),
         "fp32 numbers of each row");
  const DirectionCoefficients& step = call.step->direction;
  const double square = static_cast<double>(step.factored_scale) * step.factored_scale;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double mean = load(call.squares, 0, row) * square / static_cast<double>(call.columns);
    if (*call.skip == 0)
      store(call.means, 0, row, step.keep_squares * load(call.means, 0, row) + step.add_square * mean);
    const double divisor = std::sqrt(load(call.means, 0, row)) + step.epsilon;
    store(call.row_factors, 0, row, *call.skip == 0 ? step.factored_scale / divisor : 0);
  }
}

void run_on_reference(const DirectionLimit& call) {
  expect(is_fp32(call.squares, 1, call.row_factors.columns) &&
             is_fp32(call.row_factors, 1, call.row_factors.columns),
         "fp32 sums and factors of each row");
  double sum = 0;
  for (std::int64_t row = 0; row < call.row_factors.columns; ++row)
    sum += load(call.squares, 0, row) * load(call.row_factors, 0, row) * load(call.row_factors, 0, row);
  const double root = std::sqrt(sum / static_cast<double>(call.row_factors.columns * call.columns));
  const DirectionCoefficients& step = call.step->direction;
  const double divisor = call.normalizes ? root + step.epsilon : std::max(1.0, root / step.clip_threshold);
  for (std::int64_t row = 0; row < call.row_factors.columns; ++row)
    store(call.row_factors, 0, row, load(call.row_factors, 0, row) / divisor);
}

void run_on_reference(const SumOfSquares& call) {
  const auto& [x, sum, accumulate] = call;
  if (!accumulate) *sum = 0;
  for (std::int64_t column = 0; column < x.columns; ++column) *sum += load(x, 0, column) * load(x, 0, column);
}

}  // namespace strata
