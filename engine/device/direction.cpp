#include "engine/device/direction.h"

#include <algorithm>

#include "engine/device/elementwise_calls.h"
#include "engine/device/newton_schulz.h"
#include "engine/device/product_calls.h"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

/// What there is of each row and of each column.
struct NumbersOfAxes {
  /// `memory` may be null, if only `bytes` are asked for.
  NumbersOfAxes(std::int64_t rows, std::int64_t columns, std::byte* memory) {
    const auto take = [&](std::int64_t count) {
      const Matrix taken(memory == nullptr ? nullptr : memory + bytes, DType::fp32, 1, count);
      bytes += align_up(count * size_of(DType::fp32), Bytes{64});
      return taken;
    };
    row_squares = take(rows);
    row_factors = take(rows);
    column_squares = take(columns);
    column_factors = take(columns);
    column_weights = take(columns);
  }

  Matrix row_squares, row_factors, column_squares, column_factors, column_weights;
  Bytes bytes = 0;
};

Matrix factors_at(float* first, std::int64_t count) {
  return {first, DType::fp32, 1, count};
}

/// The gradient over the root of the mean of its squares, which is a product of a number for each row and one
/// for each column (Shazeer & Stern 2018).
void divide_by_factors(Kernels& kernels, const DirectionRule& rule, const Matrix& gradient,
                       const NumbersOfAxes& numbers) {
  const std::int64_t rows = rule.is_vector ? 0 : gradient.rows;
  if (rows > 0) kernels.run(RowDots{.a = gradient, .b = gradient, .out = numbers.row_squares});
  kernels.run(Zero{numbers.column_squares});
  kernels.run(ColumnDots{.a = gradient, .b = gradient, .sums = numbers.column_squares});
  kernels.run(FactorStep{.skip = rule.skip,
                         .step = rule.step,
                         .row_squares = rows > 0 ? numbers.row_squares : Matrix(),
                         .column_squares = numbers.column_squares,
                         .row_means = rows > 0 ? factors_at(rule.factors, rows) : Matrix(),
                         .column_means = factors_at(rule.factors + rows, gradient.columns),
                         .row_factors = numbers.row_factors,
                         .column_factors = numbers.column_factors,
                         .column_weights = numbers.column_weights});
  kernels.run(
      RowDots{.a = gradient, .b = gradient, .weight = numbers.column_weights, .out = numbers.row_squares});
  kernels.run(DirectionLimit{.step = rule.step,
                             .squares = numbers.row_squares,
                             .columns = gradient.columns,
                             .row_factors = numbers.row_factors});
  kernels.run(ColumnScale{
      .x = gradient, .factors = numbers.column_factors, .row_factors = numbers.row_factors, .out = gradient});
}

/// Each row over the root of the mean of its squares, of this and earlier steps.
void divide_rows(Kernels& kernels, const DirectionRule& rule, const Matrix& gradient,
                 const NumbersOfAxes& numbers) {
  kernels.run(RowDots{.a = gradient, .b = gradient, .out = numbers.row_squares});
  kernels.run(RowStep{.skip = rule.skip,
                      .step = rule.step,
                      .squares = numbers.row_squares,
                      .columns = gradient.columns,
                      .means = factors_at(rule.factors, gradient.rows),
                      .row_factors = numbers.row_factors});
  if (orthogonalizes(rule.rule)) {
    kernels.run(DirectionLimit{.step = rule.step,
                               .normalizes = true,
                               .squares = numbers.row_squares,
                               .columns = gradient.columns,
                               .row_factors = numbers.row_factors});
  }
  kernels.run(ColumnScale{.x = gradient, .row_factors = numbers.row_factors, .out = gradient});
}

/// A vector's elements as rows, for rules that have a factor for each of them.
Matrix as_rows(const DirectionRule& rule, const Matrix& gradient) {
  if (!rule.is_vector || rule.rule != UpdateRule::adagrad_rowwise) return gradient;
  return {gradient.data, gradient.dtype, gradient.columns, gradient.rows};
}

}  // namespace

Bytes direction_bytes(UpdateRule rule, std::int64_t rows, std::int64_t columns) {
  Bytes bytes = 0;
  if (orthogonalizes(rule)) bytes = orthogonalize_bytes(rows, columns);
  if (keeps_factors(rule))
    bytes = std::max({bytes, NumbersOfAxes(rows, columns, nullptr).bytes,
                      NumbersOfAxes(columns, rows, nullptr).bytes});  // as_rows() of a vector
  return bytes;
}

void find_direction(Kernels& kernels, const DirectionRule& rule, const Matrix& gradient,
                    std::byte* workspace) {
  if (orthogonalizes(rule.rule)) orthogonalize(kernels, gradient, workspace);
  if (!keeps_factors(rule.rule)) return;
  const Matrix rows = as_rows(rule, gradient);
  const NumbersOfAxes numbers(rows.rows, rows.columns, workspace);
  if (rule.rule == UpdateRule::adafactor) {
    divide_by_factors(kernels, rule, rows, numbers);
  } else {
    divide_rows(kernels, rule, rows, numbers);
  }
}

}  // namespace strata
