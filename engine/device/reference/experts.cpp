#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/nth.h"
#include "engine/device/expert_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"

namespace strata {

using namespace reference;

namespace {

std::int64_t size_of_span(std::span<const std::int32_t> values) {
  return static_cast<std::int64_t>(values.size());
}

/// All experts, those that are chosen first.
std::vector<std::int32_t> by_descending_logit(const Matrix& logits, std::int64_t token) {
  auto experts = sized<std::vector<std::int32_t>>(logits.columns);
  std::iota(experts.begin(), experts.end(), 0);
  std::stable_sort(experts.begin(), experts.end(), [&](std::int32_t left, std::int32_t right) {
    const double a = load(logits, token, left), b = load(logits, token, right);
    return std::isnan(a) ? !std::isnan(b) : a > b;
  });
  return experts;
}

void write_softmax(const Matrix& logits, std::int64_t token, const Matrix& probabilities) {
  double largest = load(logits, token, 0), sum = 0;
  for (std::int64_t e = 1; e < logits.columns; ++e) largest = std::fmax(largest, load(logits, token, e));
  for (std::int64_t e = 0; e < logits.columns; ++e) sum += std::exp(load(logits, token, e) - largest);
  for (std::int64_t e = 0; e < logits.columns; ++e)
    store(probabilities, token, e, std::exp(load(logits, token, e) - largest) / sum);
}

/// REQUIRES: offsets of groups over `rows` rows.
void expect_offsets(std::span<const std::int32_t> offsets, std::int64_t rows) {
  expect(offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == rows &&
             std::is_sorted(offsets.begin(), offsets.end()),
         "offsets that ascend from 0 to the number of rows");
}

}  // namespace

void run_on_reference(const RouteForward& call) {
  const auto& [normalise, logits, probabilities, experts, weights] = call;
  const std::int64_t tokens = logits.rows, top_k = weights.columns;
  expect(is_fp32(probabilities, tokens, logits.columns), "fp32 probabilities of [tokens, experts]");
  expect(is_fp32(weights, tokens, top_k) && top_k > 0 && top_k <= logits.columns &&
             size_of_span(experts) == tokens * top_k,
         "fp32 weights and experts of [tokens, top_k]");
  for (std::int64_t token = 0; token < tokens; ++token) {
    write_softmax(logits, token, probabilities);
    const std::vector<std::int32_t> order = by_descending_logit(logits, token);
    double sum = 0;
    for (std::int64_t s = 0; s < top_k; ++s) {
      nth(experts, token * top_k + s) = nth(order, s);
      sum += load(probabilities, token, nth(order, s));
    }
    for (std::int64_t s = 0; s < top_k; ++s)
      store(weights, token, s, load(probabilities, token, nth(order, s)) / (normalise ? sum : 1));
  }
}

// With the gradients d of a token's probabilities p, logits_gradient = p · (d - Σ p · d). Weights that are
// not normalised are probabilities, so their gradients g are part of d. Normalised ones are the softmax of
// the chosen logits, to which they give w · (g - Σ g · w).
void run_on_reference(const RouteBackward& call) {
  const auto& [normalise, probabilities, experts, weights, weights_gradient, balance, logits_gradient] = call;
  const std::int64_t tokens = probabilities.rows, count = probabilities.columns, top_k = weights.columns;
  expect(is_fp32(probabilities, tokens, count) && is_fp32(weights, tokens, top_k) &&
             is_fp32(weights_gradient, tokens, top_k) && size_of_span(experts) == tokens * top_k &&
             is_fp32_or_absent(balance, 1, count) && is_shape(logits_gradient, tokens, count),
         "fp32 operands of [tokens, experts] and [tokens, top_k]");
  for (std::int64_t token = 0; token < tokens; ++token) {
    auto of_probabilities = sized<std::vector<double>>(count), of_chosen = of_probabilities;
    for (std::int64_t e = 0; balance && e < count; ++e) nth(of_probabilities, e) = load(balance, 0, e);
    double common = 0;
    for (std::int64_t s = 0; s < top_k; ++s)
      common += load(weights_gradient, token, s) * load(weights, token, s);
    for (std::int64_t s = 0; s < top_k; ++s) {
      const std::int32_t expert = nth(experts, token * top_k + s);
      const double gradient = load(weights_gradient, token, s);
      if (normalise) {
        nth(of_chosen, expert) = load(weights, token, s) * (gradient - common);
      } else {
        nth(of_probabilities, expert) += gradient;
      }
    }
    double mean = 0;
    for (std::int64_t e = 0; e < count; ++e) mean += load(probabilities, token, e) * nth(of_probabilities, e);
    for (std::int64_t e = 0; e < count; ++e) {
      store(logits_gradient, token, e,
            load(probabilities, token, e) * (nth(of_probabilities, e) - mean) + nth(of_chosen, e));
    }
  }
}

void run_on_reference(const LoadBalance& call) {
  const std::int64_t experts = call.counts.columns;
  expect(is_fp32(call.counts, 1, experts) && is_fp32(call.probability_sums, 1, experts) &&
             is_fp32_or_absent(call.balance, 1, experts) && is_fp32_or_absent(call.loss, 1, 1),
         "fp32 operands of [1, experts], and a loss");
  const double factor = call.coefficient * static_cast<double>(experts) / (call.rows * call.rows);
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    sum += load(call.counts, 0, e) * load(call.probability_sums, 0, e);
    const double scale = call.loss_scale == nullptr ? 1 : *call.loss_scale;
    if (call.balance) store(call.balance, 0, e, factor * scale * load(call.counts, 0, e));
  }
  if (call.loss) store(call.loss, 0, 0, factor * sum);
}

void run_on_reference(const GroupRows& call) {
  const auto& [groups, copies, sources, places, offsets] = call;
  const std::int64_t rows = size_of_span(groups), count = size_of_span(offsets) - 1;
  expect(size_of_span(sources) == rows && size_of_span(places) == rows && count > 0 && copies > 0,
         "a source and a place for each row");
  expect(std::all_of(groups.begin(), groups.end(), [&](std::int32_t g) { return g >= 0 && g < count; }),
         "groups in [0, number of groups)");
  std::int32_t place = 0;
  for (std::int64_t group = 0; group < count; ++group) {
    nth(offsets, group) = place;
    for (std::int64_t row = 0; row < rows; ++row) {
      if (nth(groups, row) != group) continue;
      nth(sources, place) = static_cast<std::int32_t>(row / copies);
      nth(places, row) = place++;
    }
  }
  offsets.back() = place;
}

void run_on_reference(const CountRows& call) {
  const auto& [offsets, counts] = call;
  expect(is_fp32(counts, 1, size_of_span(offsets) - 1), "fp32 counts of [1, groups]");
  for (std::int64_t group = 0; group < counts.columns; ++group)
    add_to(counts, 0, group, nth(offsets, group + 1) - nth(offsets, group));
}

void run_on_reference(const CombineRows& call) {
  const std::int64_t slots = call.out.rows == 0 ? 0 : call.x.rows / call.out.rows;
  expect(call.x.rows == call.out.rows * slots && call.x.columns == call.out.columns &&
             call.x.dtype == call.out.dtype && size_of_span(call.places) == call.x.rows &&
             is_fp32_or_absent(call.weights, call.out.rows, slots),
         "x of [tokens * slots, columns], a place for each row, fp32 weights of [tokens, slots]");
  for_each_element(call.out, [&](std::int64_t token, std::int64_t column) {
    double sum = 0;
    for (std::int64_t s = 0; s < slots; ++s) {
      const double weight = call.weights ? load(call.weights, token, s) : 1;
      sum += weight * load(call.x, nth(call.places, token * slots + s), column);
    }
    store(call.out, token, column, sum);
  });
}

void run_on_reference(const CombineRowsBackward& call) {
  const std::int64_t tokens = call.out_gradient.rows, slots = call.weights.columns, columns = call.x.columns;
  expect(is_shape(call.x, tokens * slots, columns) && call.out_gradient.columns == columns &&
             call.x.dtype == call.out_gradient.dtype && is_like(call.x_gradient, call.x) &&
             size_of_span(call.places) == call.x.rows && is_fp32(call.weights, tokens, slots) &&
             is_fp32(call.weights_gradient, tokens, slots),
         "x and its gradient of [tokens * slots, columns], fp32 weights of [tokens, slots]");
  for_each_element(call.weights, [&](std::int64_t token, std::int64_t s) {
    const std::int32_t place = nth(call.places, token * slots + s);
    const double weight = load(call.weights, token, s);
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c)
      sum += load(call.x, place, c) * load(call.out_gradient, token, c);
    store(call.weights_gradient, token, s, sum);
    for (std::int64_t c = 0; c < columns; ++c)
      store(call.x_gradient, place, c, weight * load(call.out_gradient, token, c));
  });
}

void run_on_reference(const GroupedProduct& product) {
  const auto& [offsets, a, b, transpose_b, out] = product;
  const std::int64_t groups = size_of_span(offsets) - 1;
  expect_offsets(offsets, a.rows);
  expect(b.rows == groups * (transpose_b ? out.columns : a.columns) && out.rows == a.rows &&
             b.columns == (transpose_b ? a.columns : out.columns) && a.dtype == b.dtype &&
             out.dtype == a.dtype,
         "a matrix of b for each group");
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = nth(offsets, g), rows = nth(offsets, g + 1) - first;
    if (rows == 0) continue;
    run_on_reference(Product{.a = a.row_slice(first, rows),
                             .b = b.row_slice(g * (b.rows / groups), b.rows / groups),
                             .transpose_b = transpose_b,
                             .out = out.row_slice(first, rows)});
  }
}

void run_on_reference(const GroupedWeightGradient& product) {
  const auto& [offsets, a, b, gradient] = product;
  const std::int64_t groups = size_of_span(offsets) - 1;
  expect_offsets(offsets, a.rows);
  expect(a.rows == b.rows && a.dtype == b.dtype && is_fp32(gradient, groups * a.columns, b.columns),
         "an fp32 matrix of the gradient for each group");
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = nth(offsets, g), rows = nth(offsets, g + 1) - first;
    if (rows == 0) continue;
    run_on_reference(Product{.a = a.row_slice(first, rows),
                             .transpose_a = true,
                             .b = b.row_slice(first, rows),
                             .out = gradient.row_slice(g * a.columns, a.columns),
                             .accumulate = true});
  }
}

}  // namespace strata
