#include <cmath>

#include "engine/device/head_norm.h"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"

namespace strata {

using namespace reference;

namespace {

/// What a column of the normalised row is multiplied by. Norm: a call that has a weight.
template <typename Norm>
double factor(const Norm& norm, std::int64_t column) {
  return load(norm.weight, 0, column) + (norm.unit_offset ? 1 : 0);
}

}  // namespace

void run_on_reference(const RowDots& call) {
  expect(is_like(call.b, call.a) && is_fp32(call.out, 1, call.a.rows), "rows alike, and fp32 sums");
  for (std::int64_t row = 0; row < call.a.rows; ++row) {
    double sum = 0;
    for (std::int64_t c = 0; c < call.a.columns; ++c)
      sum += load(call.a, row, c) * load(call.b, row, c) * (call.weight ? factor(call, c) : 1);
    store(call.out, 0, row, sum);
  }
}

void run_on_reference(const RowDeviation& call) {
  expect(is_fp32(call.deviation, 1, call.squares.columns), "fp32 deviations of [1, rows]");
  for (std::int64_t row = 0; row < call.squares.columns; ++row) {
    const double square = load(call.squares, 0, row) / static_cast<double>(call.columns);
    store(call.deviation, 0, row, 1 / std::sqrt(square + call.epsilon));
  }
}

void run_on_reference(const NormForward& norm) {
  const bool centred = norm.kind == NormKind::layer_norm;
  const std::int64_t rows = norm.input.rows;
  const std::int64_t columns = norm.input.columns;
  expect(is_like(norm.out, norm.input) && is_like_or_absent(norm.addend, norm.input), "operands like input");
  expect(!norm.addend || is_like(norm.sum, norm.input), "a sum if there is an addend");
  expect(is_shape(norm.weight, 1, columns) && (!norm.bias || is_shape(norm.bias, 1, columns)),
         "weight and bias of [1, columns]");
  expect(is_fp32(norm.reciprocal_deviation, 1, rows) && (!centred || is_fp32(norm.mean, 1, rows)),
         "fp32 statistics of [1, rows]");
  expect(!norm.given_deviation || !centred, "a deviation from elsewhere without means");
  const Matrix& source = norm.addend ? norm.sum : norm.input;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; norm.addend && c < columns; ++c) {
      store(norm.sum, row, c, load(norm.input, row, c) + load(norm.addend, row, c));
    }
    double mean = 0;
    for (std::int64_t c = 0; centred && c < columns; ++c) mean += load(source, row, c);
    mean /= static_cast<double>(columns);
    double variance = 0;
    for (std::int64_t c = 0; c < columns; ++c) variance += std::pow(load(source, row, c) - mean, 2);
    variance /= static_cast<double>(columns);
    const double reciprocal_deviation = norm.given_deviation ? load(norm.reciprocal_deviation, 0, row)
                                                             : 1 / std::sqrt(variance + norm.epsilon);
    if (centred) store(norm.mean, 0, row, mean);
    store(norm.reciprocal_deviation, 0, row, reciprocal_deviation);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double normalised = (load(source, row, c) - mean) * reciprocal_deviation;
      store(norm.out, row, c, normalised * factor(norm, c) + (norm.bias ? load(norm.bias, 0, c) : 0));
    }
  }
}

// With n = (x - mean) · r and g = out_gradient · factor, over the columns of a row:
//   weight_gradient += sum over rows of out_gradient · n,   bias_gradient += sum over rows of out_gradient,
//   input_gradient = r · (g - average(g) - n · average(g · n)) + addend,   without average(g) for RMSNorm.
void run_on_reference(const NormBackward& norm) {
  const bool centred = norm.kind == NormKind::layer_norm;
  const std::int64_t rows = norm.input.rows;
  const std::int64_t columns = norm.input.columns;
  expect(is_like(norm.out_gradient, norm.input) && is_like(norm.input_gradient, norm.input) &&
             is_like_or_absent(norm.addend, norm.input),
         "gradients like input");
  expect(is_shape(norm.weight, 1, columns) && is_fp32_or_absent(norm.weight_gradient, 1, columns) &&
             is_fp32_or_absent(norm.bias_gradient, 1, columns),
         "weight and fp32 gradients of [1, columns]");
  expect(is_fp32(norm.reciprocal_deviation, 1, rows) && (!centred || is_fp32(norm.mean, 1, rows)),
         "fp32 statistics of [1, rows]");
  expect(is_fp32_or_absent(norm.projections, 1, rows) && (!norm.projections || !centred),
         "fp32 projections of [1, rows], without means");
  const auto normalised = [&](std::int64_t row, std::int64_t c) {
    return (load(norm.input, row, c) - (centred ? load(norm.mean, 0, row) : 0)) *
           load(norm.reciprocal_deviation, 0, row);
  };
  // Parameters first: input_gradient may overwrite out_gradient.
  for (std::int64_t c = 0; c < columns; ++c) {
    double weight_gradient = 0;
    double bias_gradient = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      weight_gradient += load(norm.out_gradient, row, c) * normalised(row, c);
      bias_gradient += load(norm.out_gradient, row, c);
    }
    if (norm.weight_gradient) add_to(norm.weight_gradient, 0, c, weight_gradient);
    if (norm.bias_gradient) add_to(norm.bias_gradient, 0, c, bias_gradient);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    double average = 0;
    double projection = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const double gradient = load(norm.out_gradient, row, c) * factor(norm, c);
      if (centred) average += gradient / static_cast<double>(columns);
      projection += gradient * normalised(row, c) / static_cast<double>(columns);
    }
    if (norm.projections) {
      projection = load(norm.projections, 0, row) * load(norm.reciprocal_deviation, 0, row) /
                   static_cast<double>(norm.whole_columns);
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const double gradient = load(norm.out_gradient, row, c) * factor(norm, c);
      const double input_gradient =
          load(norm.reciprocal_deviation, 0, row) * (gradient - average - normalised(row, c) * projection);
      store(norm.input_gradient, row, c, input_gradient + (norm.addend ? load(norm.addend, row, c) : 0));
    }
  }
}

namespace {

/// What both calls have.
template <typename Call>
void expect_heads(const Call& call) {
  const std::int64_t dimension = call.query_weight.columns;
  expect(is_shape(call.query_weight, 1, dimension) && is_shape(call.key_weight, 1, dimension) &&
             call.x.columns % (dimension * (call.queries_per_key + 1)) == 0,
         "whole groups of heads of queries and one of keys, and weights of [1, head_dimension]");
  expect(is_fp32(call.reciprocal_deviation, heads_of(call), call.x.rows),
         "fp32 deviations of [heads, tokens]");
}

}  // namespace

void run_on_reference(const HeadNormForward& norm) {
  expect_heads(norm);
  run_by_heads(norm, [](const auto& call) { run_on_reference(call); });
}

void run_on_reference(const HeadNormBackward& norm) {
  expect_heads(norm);
  run_by_heads(norm, [](const auto& call) { run_on_reference(call); });
}

}  // namespace strata
