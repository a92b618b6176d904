#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numbers>

#include "base/block_codes.h"
#include "base/dropout.h"
#include "base/float8.h"
#include "base/nth.h"
#include "engine/device/kernel_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"

namespace strata {

using namespace reference;

namespace {

/// An operand of a product, as it is rounded.
class RoundedOperand {
 public:
  RoundedOperand(const Matrix& matrix, bool transpose, Rounding rounding)
      : matrix_(matrix), transpose_(transpose), rounding_(rounding) {
    if (rounding == Rounding::none) return;
    double largest = 0;
    for_each_element(matrix, [&](std::int64_t row, std::int64_t column) {
      const double magnitude = std::abs(load(matrix, row, column));
      if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    });
    scale_ = Float8Scale::of(static_cast<float>(largest));
  }

  /// What stands there in the product, transposed and rounded.
  double at(std::int64_t row, std::int64_t column) const {
    const double value = transpose_ ? load(matrix_, column, row) : load(matrix_, row, column);
    return rounding_ == Rounding::e4m3 ? scale_.rounded(static_cast<float>(value)) : value;
  }

 private:
  const Matrix& matrix_;
  bool transpose_;
  Rounding rounding_;
  Float8Scale scale_;
};

}  // namespace

void run_on_reference(const Product& product) {
  const std::int64_t inner = product.transpose_a ? product.a.rows : product.a.columns;
  expect(is_shape(product.a, product.transpose_a ? inner : product.out.rows,
                  product.transpose_a ? product.out.rows : inner),
         "a of [m, k]");
  expect(is_shape(product.b, product.transpose_b ? product.out.columns : inner,
                  product.transpose_b ? inner : product.out.columns),
         "b of [k, n]");
  expect(product.a.dtype == product.b.dtype &&
             (product.out.dtype == product.a.dtype || product.out.dtype == DType::fp32),
         "one dtype, or an fp32 out");
  expect(!product.bias ||
             (is_shape(product.bias, 1, product.out.columns) && product.bias.dtype == product.a.dtype),
         "a bias of [1, n]");
  expect(!product.addend || (is_like(product.addend, product.out) && !product.accumulate),
         "an addend like out, or out itself");
  expect(!product.activated ||
             (is_like(product.activated, product.out) && !product.addend && !product.accumulate),
         "an activation like out, of no more than the product and its bias");
  const Matrix& addend = product.accumulate ? product.out : product.addend;
  const RoundedOperand a(product.a, product.transpose_a, product.rounding),
      b(product.b, product.transpose_b, product.rounding);
  for_each_element(product.out, [&](std::int64_t row, std::int64_t column) {
    double sum = product.bias ? load(product.bias, 0, column) : 0;
    for (std::int64_t k = 0; k < inner; ++k) sum += a.at(row, k) * b.at(k, column);
    store(product.out, row, column, addend ? load(addend, row, column) + sum : sum);
  });
  if (product.activated)
    run_on_reference(ActivationForward{product.activation, product.out, product.activated});
}

void run_on_reference(const ColumnSum& call) {
  const auto& [x, gradient] = call;
  expect(is_fp32(gradient, 1, x.columns), "an fp32 gradient of [1, n]");
  for (std::int64_t column = 0; column < x.columns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < x.rows; ++row) sum += load(x, row, column);
    add_to(gradient, 0, column, sum);
  }
}

void run_on_reference(const ColumnDots& call) {
  const auto& [a, b, factors, sums] = call;
  expect(is_like(b, a) && is_fp32(sums, 1, a.columns) && is_fp32_or_absent(factors, 1, a.columns),
         "columns alike, and fp32 sums and factors");
  for (std::int64_t column = 0; column < a.columns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < a.rows; ++row) sum += load(a, row, column) * load(b, row, column);
    add_to(sums, 0, column, factors ? load(factors, 0, column) * sum : sum);
  }
}

void run_on_reference(const ColumnScale& call) {
  const std::int64_t columns = call.x.columns;
  expect(is_like(call.out, call.x) && is_fp32_or_absent(call.factors, 1, columns),
         "out like x, and fp32 factors of [1, n]");
  expect(!call.bias || (is_shape(call.bias, 1, columns) && call.bias.dtype == call.x.dtype),
         "a bias of [1, n]");
  expect(!call.row_factors || is_fp32(call.row_factors, 1, call.x.rows), "fp32 factors of [1, m]");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    const double scaled = load(call.x, row, column) * (call.factors ? load(call.factors, 0, column) : 1);
    const double of_row = call.row_factors ? load(call.row_factors, 0, row) : 1;
    store(call.out, row, column, (scaled + (call.bias ? load(call.bias, 0, column) : 0)) * of_row);
  });
}

void run_on_reference(const MagnitudeFactors& call) {
  const std::int64_t outputs = call.magnitudes.columns;
  expect(is_fp32(call.squares, 1, outputs) && is_fp32(call.dots, 1, outputs) &&
             is_fp32(call.reciprocal_norms, 1, outputs) && is_fp32(call.factors, 1, outputs),
         "fp32 sums and factors of [1, outputs]");
  for (std::int64_t i = 0; i < outputs; ++i) {
    const double square = load(call.squares, 0, i) + load(call.dots, 0, i);
    const double reciprocal = square > 0 ? 1 / std::sqrt(square) : 0;
    store(call.factors, 0, i, load(call.magnitudes, 0, i) * reciprocal);
    store(call.reciprocal_norms, 0, i, reciprocal);
  }
}

namespace {

// gelu(x) = x/2 · (1 + tanh(u)) = x · sigmoid(2u) with u = sqrt(2/pi) · (x + 0.044715 x³); 1 + tanh(u) would
// lose the digits of small gates.
constexpr double kCubic = 0.044715;
const double kGeluSlope = std::sqrt(2 / std::numbers::pi);

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double gelu_gate(double x) {
  return sigmoid(2 * kGeluSlope * (x + kCubic * x * x * x));
}

/// A function's value and derivative.
struct AtPoint {
  double value, derivative;
};

AtPoint gelu_tanh(double x) {
  const double gate = gelu_gate(x);
  const double slope = 2 * kGeluSlope * (1 + 3 * kCubic * x * x);
  return {x * gate, gate + x * gate * (1 - gate) * slope};
}

AtPoint silu(double x) {
  const double sigma = sigmoid(x);
  return {x * sigma, sigma * (1 + x * (1 - sigma))};
}

AtPoint relu2(double x) {
  const auto in_fp32 = [](double y) { return y > std::numeric_limits<float>::max() ? INFINITY : y; };
  const double positive = x < 0 ? 0 : x;
  return {in_fp32(positive * positive), in_fp32(2 * positive)};
}

AtPoint activation(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    case Activation::relu2:
      return relu2(x);
  }
  return {};
}

}  // namespace

void run_on_reference(const ActivationForward& call) {
  expect(is_like(call.out, call.x), "out like x");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    store(call.out, row, column, activation(call.kind, load(call.x, row, column)).value);
  });
}

void run_on_reference(const ActivationBackward& call) {
  expect(is_like(call.out_gradient, call.x) && is_like(call.x_gradient, call.x) &&
             (!call.out || is_like(call.out, call.x)),
         "gradients and out like x");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    const AtPoint at = activation(call.kind, load(call.x, row, column));
    store(call.x_gradient, row, column, load(call.out_gradient, row, column) * at.derivative);
    if (call.out) store(call.out, row, column, at.value);
  });
}

void run_on_reference(const GatedForward& call) {
  const std::int64_t columns = call.out.columns;
  expect(is_shape(call.gate_up, call.out.rows, 2 * columns) && call.gate_up.dtype == call.out.dtype,
         "gate_up of [m, 2n]");
  for_each_element(call.out, [&](std::int64_t row, std::int64_t column) {
    const double gate = activation(call.kind, load(call.gate_up, row, column)).value;
    store(call.out, row, column, gate * load(call.gate_up, row, columns + column));
  });
}

void run_on_reference(const GatedBackward& call) {
  const std::int64_t columns = call.out_gradient.columns;
  expect(is_shape(call.gate_up, call.out_gradient.rows, 2 * columns) &&
             call.gate_up.dtype == call.out_gradient.dtype && is_like(call.gate_up_gradient, call.gate_up) &&
             (!call.out || is_like(call.out, call.out_gradient)),
         "gate_up and its gradient of [m, 2n], out of [m, n]");
  for_each_element(call.out_gradient, [&](std::int64_t row, std::int64_t column) {
    const AtPoint gate = activation(call.kind, load(call.gate_up, row, column));
    const double up = load(call.gate_up, row, columns + column);
    const double gradient = load(call.out_gradient, row, column);
    store(call.gate_up_gradient, row, column, gradient * up * gate.derivative);
    store(call.gate_up_gradient, row, columns + column, gradient * gate.value);
    if (call.out) store(call.out, row, column, gate.value * up);
  });
}

void run_on_reference(const EmbeddingForward& call) {
  expect(is_shape(call.out, static_cast<std::int64_t>(call.tokens.size()), call.table.columns),
         "out of [tokens, hidden]");
  expect(!call.positions ||
             (call.positions.rows >= call.sequence && call.positions.columns == call.table.columns),
         "positions of at least [sequence, hidden]");
  expect_places(call.places, call.out.rows);
  for_each_element(call.out, [&](std::int64_t row, std::int64_t column) {
    const std::int32_t token = nth(call.tokens, row);
    const std::int64_t table_row = token - call.first_row.value_or(0);
    const bool has_row = table_row >= 0 && table_row < call.table.rows;
    expect(token >= 0 && (has_row || call.first_row), "tokens in [0, vocabulary)");
    const double position =
        call.positions ? load(call.positions, position_of(call.places, row, call.sequence), column) : 0;
    store(call.out, row, column, (has_row ? load(call.table, table_row, column) : 0) + position);
  });
}

void run_on_reference(const EmbeddingBackward& call) {
  const Matrix& out_gradient = call.out_gradient;
  const Matrix& table_gradient = call.table_gradient;
  expect(out_gradient.rows == static_cast<std::int64_t>(call.tokens.size()),
         "out_gradient of [tokens, hidden]");
  expect(!table_gradient ||
             (table_gradient.columns == out_gradient.columns && table_gradient.dtype == DType::fp32),
         "an fp32 table_gradient of [vocabulary, hidden]");
  expect_places(call.places, out_gradient.rows);
  for_each_element(out_gradient, [&](std::int64_t row, std::int64_t column) {
    const std::int32_t token = nth(call.tokens, row);
    const std::int64_t table_row = token - call.first_row.value_or(0);
    const bool has_row = table_row >= 0 && table_row < table_gradient.rows;
    expect(token >= 0 && (!table_gradient || has_row || call.first_row), "tokens in [0, vocabulary)");
    const double gradient = load(out_gradient, row, column);
    if (has_row && token != call.padding_token) add_to(table_gradient, table_row, column, gradient);
    if (call.positions_gradient)
      add_to(call.positions_gradient, position_of(call.places, row, call.sequence), column, gradient);
  });
}

namespace {

/// What a logit counts as, and the derivative of that.
AtPoint capped(const Matrix& logits, std::int64_t row, std::int64_t column, float soft_cap) {
  const double logit = load(logits, row, column);
  if (soft_cap == 0) return {logit, 1};
  const double tangent = std::tanh(logit / soft_cap);
  return {soft_cap * tangent, 1 - tangent * tangent};
}

struct Softmax {
  double largest, sum, target_logit;
  double log_sum_exp() const { return largest + std::log(sum); }
};

/// `target`: a column, or one that the row lacks.
Softmax softmax_of(const Matrix& logits, std::int64_t row, std::int64_t target, float soft_cap) {
  Softmax softmax{capped(logits, row, 0, soft_cap).value, 0, 0};
  const auto logit = [&](std::int64_t column) { return capped(logits, row, column, soft_cap).value; };
  for (std::int64_t c = 1; c < logits.columns; ++c) softmax.largest = std::fmax(softmax.largest, logit(c));
  for (std::int64_t c = 0; c < logits.columns; ++c) softmax.sum += std::exp(logit(c) - softmax.largest);
  if (target >= 0 && target < logits.columns) softmax.target_logit = logit(target);
  return softmax;
}

/// The softmax of all parts together.
Softmax softmax_of(const Matrix& statistics, std::int64_t row) {
  Softmax all{load(statistics, row, 0), 0, 0};
  for (std::int64_t part = 0; part < statistics.columns; part += kSoftmaxStatistics)
    all.largest = std::fmax(all.largest, load(statistics, row, part));
  for (std::int64_t part = 0; part < statistics.columns; part += kSoftmaxStatistics) {
    all.sum += load(statistics, row, part + 1) * std::exp(load(statistics, row, part) - all.largest);
    all.target_logit += load(statistics, row, part + 2);
  }
  return all;
}

void write_gradient(const Matrix& logits, std::int64_t row, std::int64_t target, const Softmax& softmax,
                    double scale, float soft_cap) {
  for (std::int64_t c = 0; c < logits.columns; ++c) {
    const auto [logit, slope] = capped(logits, row, c, soft_cap);
    const double probability = std::exp(logit - softmax.log_sum_exp());
    store(logits, row, c, scale * (probability - (c == target ? 1 : 0)) * slope);
  }
}

double scale_of(float gradient_scale, const float* loss_scale) {
  return static_cast<double>(gradient_scale) * (loss_scale != nullptr ? *loss_scale : 1);
}

}  // namespace

void run_on_reference(const CrossEntropy& loss) {
  const Matrix& logits = loss.logits;
  expect(
      is_fp32(loss.losses, 1, logits.rows) && static_cast<std::int64_t>(loss.targets.size()) == logits.rows,
      "a target and an fp32 loss for each row");
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const std::int32_t target = nth(loss.targets, row);
    if (target == kNoTarget) {
      store(loss.losses, 0, row, 0);
      if (loss.gradient) run_on_reference(Zero{logits.row_slice(row, 1)});
      continue;
    }
    expect(target >= 0 && target < logits.columns, "targets in [0, vocabulary), or none");
    const Softmax softmax = softmax_of(logits, row, target, loss.soft_cap);
    store(loss.losses, 0, row,
          softmax.log_sum_exp() - softmax.target_logit + (loss.penalty != nullptr ? *loss.penalty : 0));
    if (loss.gradient)
      write_gradient(logits, row, target, softmax, scale_of(loss.gradient_scale, loss.loss_scale),
                     loss.soft_cap);
  }
}

void run_on_reference(const SoftmaxPart& call) {
  const Matrix& logits = call.logits;
  expect(is_fp32(call.statistics, logits.rows, kSoftmaxStatistics) &&
             static_cast<std::int64_t>(call.targets.size()) == logits.rows,
         "a target and fp32 statistics for each row");
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const std::int32_t target = nth(call.targets, row);
    if (target == kNoTarget) {
      run_on_reference(Zero{call.statistics.row_slice(row, 1)});
      continue;
    }
    const Softmax softmax = softmax_of(logits, row, target - call.first, call.soft_cap);
    store(call.statistics, row, 0, softmax.largest);
    store(call.statistics, row, 1, softmax.sum);
    store(call.statistics, row, 2, softmax.target_logit);
  }
}

void run_on_reference(const PartsLoss& call) {
  expect(call.statistics.columns % kSoftmaxStatistics == 0 && is_fp32(call.losses, 1, call.statistics.rows),
         "statistics of whole parts and an fp32 loss for each row");
  for (std::int64_t row = 0; row < call.statistics.rows; ++row) {
    const Softmax softmax = softmax_of(call.statistics, row);
    const bool has_target = softmax.sum != 0;
    store(call.losses, 0, row,
          has_target
              ? softmax.log_sum_exp() - softmax.target_logit + (call.penalty != nullptr ? *call.penalty : 0)
              : 0);
  }
}

void run_on_reference(const PartsGradient& call) {
  expect(call.statistics.columns % kSoftmaxStatistics == 0 && call.statistics.rows == call.logits.rows &&
             static_cast<std::int64_t>(call.targets.size()) == call.logits.rows,
         "a target and statistics of whole parts for each row");
  for (std::int64_t row = 0; row < call.logits.rows; ++row) {
    const std::int32_t target = nth(call.targets, row);
    if (target == kNoTarget) {
      run_on_reference(Zero{call.logits.row_slice(row, 1)});
      continue;
    }
    write_gradient(call.logits, row, target - call.first, softmax_of(call.statistics, row),
                   scale_of(call.gradient_scale, call.loss_scale), call.soft_cap);
  }
}

void run_on_reference(const Addition& call) {
  expect(is_like(call.b, call.a) && is_like(call.out, call.a), "operands of one shape and dtype");
  for_each_element(call.out, [&](std::int64_t row, std::int64_t column) {
    store(call.out, row, column, load(call.a, row, column) + load(call.b, row, column));
  });
}

void run_on_reference(const Scale& call) {
  expect(is_like(call.out, call.x), "out like x");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    store(call.out, row, column, call.factor * load(call.x, row, column));
  });
}

void run_on_reference(const Blend& call) {
  expect(is_like(call.out, call.x) && is_fp32(call.sums, call.x.rows, call.x.columns),
         "out like x, and fp32 sums of its shape");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    const double sum = call.sums_factor * load(call.sums, row, column);
    store(call.out, row, column, call.x_factor * load(call.x, row, column) + sum);
  });
}

void run_on_reference(const DivideByNorm& call) {
  expect(is_like(call.out, call.x), "out like x");
  const double norm = with_storage_type(call.x.dtype, [&]<typename T>(T) {
    return static_cast<float>(T(static_cast<float>(std::sqrt(*call.squares))));
  });
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    store(call.out, row, column, load(call.x, row, column) / std::max<double>(norm, call.least));
  });
}

void run_on_reference(const Dropout& call) {
  const auto& [x, keys, site, first_column, probability, out] = call;
  expect(is_like(out, x) && std::ssize(keys) == x.rows, "out like x, and a key for each row");
  const std::uint32_t threshold = dropout_threshold(probability);
  const float factor = dropout_factor(probability);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const std::int32_t key = nth(keys, row);
    for (std::int64_t column = 0; column < x.columns; ++column) {
      const double value = load(x, row, column);
      const bool kept = is_kept(dropout_row(key, site), first_column + column, threshold);
      store(out, row, column, key == kWithoutDropout ? value : kept ? value * factor : 0);
    }
  }
}

void run_on_reference(const Cast& call) {
  expect(is_shape(call.out, call.x.rows, call.x.columns), "operands of one shape");
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) {
    store(call.out, row, column, load(call.x, row, column));
  });
}

void run_on_reference(const Zero& call) {
  for_each_element(call.x, [&](std::int64_t row, std::int64_t column) { store(call.x, row, column, 0); });
}

void run_on_reference(const EncodeFloat8& call) {
  const std::int64_t count = std::ssize(call.codes);
  expect(is_shape(call.x, 1, count) && call.x.dtype == DType::bf16 && count % kCodesAtOnce == 0,
         "a code for each number of bf16, in whole runs");
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double magnitude = std::abs(load(call.x, 0, i));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  const Float8Scale scale = Float8Scale::of(static_cast<float>(largest));
  *call.scale = scale.factors();
  for (std::int64_t i = 0; i < count; ++i)
    nth(call.codes, i) = float8_e4m3(static_cast<float>(load(call.x, 0, i)) * scale.factor()).bits;
}

void run_on_reference(const DecodeFloat8& call) {
  const std::int64_t count = std::ssize(call.codes);
  expect(is_shape(call.out, 1, count) && call.out.dtype == DType::bf16 && count % kCodesAtOnce == 0,
         "a number of bf16 for each code, in whole runs");
  for (std::int64_t i = 0; i < count; ++i)
    call.out.row<bfloat16>(0)[i] = decoded_float8(nth(call.codes, i), call.scale->inverse);
}

void run_on_reference(const DecodeBlocks& call) {
  const std::int64_t count = call.out.columns;
  expect(call.out.rows == 1 && std::ssize(call.codes) == code_bytes(call.format, count),
         "codes of each number");
  expect(call.block > 0 && call.first >= 0 && call.first < call.block &&
             std::ssize(call.scales) * call.block >= call.first + count,
         "a scale for each block");
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = nth(call.scales, (call.first + i) / call.block);
    store(call.out, 0, i, block_number(call.format, code_at(call.format, call.codes.data(), i), scale));
  }
}

}  // namespace strata
