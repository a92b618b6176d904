#include "engine/model/graph/operators/attention.h"

#include <cmath>

#include "base/nth.h"
#include "engine/device/attention_calls.h"
#include "engine/device/elementwise_calls.h"
#include "engine/model/graph/derivation.h"

namespace strata {
namespace {

AttentionShape shape_of(AttentionShape attention, const Operands& operands) {
  attention.batch = operands.shape().batch;
  attention.sequence = operands.shape().sequence;
  attention.heads = operands[AttentionRule::query].columns / attention.head_dimension;
  attention.kv_heads = operands[AttentionRule::key].columns / attention.head_dimension;
  return attention;
}

/// One of the causal products (query by key, or probabilities by value): only pairs that a token sees count.
double product_flops(const AttentionShape& attention) {
  const auto sequence = static_cast<double>(attention.sequence);
  const auto window =
      attention.window > 0 ? std::fmin(static_cast<double>(attention.window), sequence) : sequence;
  const double pairs = static_cast<double>(attention.batch) * (window * sequence - window * window / 2);
  return 2 * pairs * static_cast<double>(attention.heads * attention.head_dimension);
}

AttentionShape shape_in_step(const AttentionShape& attention, std::int64_t step, const Operands& operands) {
  AttentionShape shape = shape_of(attention, operands);
  shape.context = operands.shape().context;
  shape.step = step;
  return shape;
}

/// Ranks share out the products of whole sequences, and each its own over the steps: evenly, but for a
/// window.
double product_flops_of_step(AttentionShape attention, const Operands& operands) {
  const std::int64_t ranks = operands.shape().context.ranks;
  attention = shape_of(attention, operands);
  attention.sequence *= ranks;
  return product_flops(attention) / static_cast<double>(ranks * ranks);
}

/// The call of a rule with these operands, alone or in a step of a ring.
template <typename Rule>
AttentionForward forward_call(const AttentionShape& shape, const Operands& operands) {
  return {.shape = shape,
          .query = operands[Rule::query],
          .key = operands[Rule::key],
          .value = operands[Rule::value],
          .out = operands[Rule::out],
          .log_sum_exp = operands[Rule::log_sum_exp],
          .places = operands.indices(Rule::places)};
}

template <typename Rule>
AttentionBackward backward_call(const AttentionShape& shape, const Operands& operands) {
  return {.shape = shape,
          .query = operands[Rule::query],
          .key = operands[Rule::key],
          .value = operands[Rule::value],
          .out = operands[Rule::out],
          .log_sum_exp = operands[Rule::log_sum_exp],
          .out_gradient = operands[Rule::out_gradient],
          .query_gradient = operands[Rule::query_gradient],
          .key_gradient = operands[Rule::key_gradient],
          .value_gradient = operands[Rule::value_gradient],
          .places = operands.indices(Rule::places)};
}

}  // namespace

void AttentionRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(forward_call<AttentionRule>(shape_of(attention_, operands), operands));
}

double AttentionRule::flops(const Operands& operands) const {
  return 2 * product_flops(shape_of(attention_, operands));
}

void AttentionRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView out_gradient = derivation.gradient(node[out]);
  const bool is_wanted =
      derivation.wants(node[query]) || derivation.wants(node[key]) || derivation.wants(node[value]);
  if (!out_gradient || !is_wanted) return;
  const TensorView query_gradient = derivation.first_gradient(node[query]);
  const TensorView key_gradient = derivation.first_gradient(node[key]);
  const TensorView value_gradient = derivation.first_gradient(node[value]);
  derivation.add(std::make_shared<AttentionGradientRule>(attention_),
                 {node[query], node[key], node[value], node[out], node[log_sum_exp], out_gradient,
                  query_gradient, key_gradient, value_gradient, node[places]});
}

bool AttentionRule::decode(Kernels& kernels, const Operands& operands, const DecodeStep& step) const {
  const Matrix &keys = step.cached[0], &values = step.cached[1];
  const std::int64_t sequences = std::ssize(step.lengths);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t newest = i * step.capacity + nth(step.lengths_on_host, i) - 1;
    kernels.run(Cast{.x = operands[key].row_slice(i, 1), .out = keys.row_slice(newest, 1)});
    kernels.run(Cast{.x = operands[value].row_slice(i, 1), .out = values.row_slice(newest, 1)});
  }
  AttentionShape shape = shape_of(attention_, operands);
  shape.batch = sequences;
  shape.sequence = step.capacity;
  kernels.run(CachedAttention{.shape = shape,
                              .lengths = step.lengths,
                              .query = operands[query],
                              .key = keys,
                              .value = values,
                              .out = operands[out]});
  return true;
}

void AttentionGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(backward_call<AttentionGradientRule>(shape_of(attention_, operands), operands));
}

/// Five products: the scores are computed again.
double AttentionGradientRule::flops(const Operands& operands) const {
  return 5 * product_flops(shape_of(attention_, operands));
}

void RingAttentionRule::run(Kernels& kernels, const Operands& operands) const {
  AttentionForward call =
      forward_call<RingAttentionRule>(shape_in_step(attention_, step_, operands), operands);
  call.before = operands[before];
  call.log_sum_exp_before = operands[log_sum_exp_before];
  kernels.run(call);
}

double RingAttentionRule::flops(const Operands& operands) const {
  return 2 * product_flops_of_step(attention_, operands);
}

void RingAttentionRule::differentiate(const Node&, Derivation&) const {
  throw std::logic_error("a pass over a ring of ranks has been derived before");
}

void RingAttentionGradientRule::run(Kernels& kernels, const Operands& operands) const {
  AttentionBackward call =
      backward_call<RingAttentionGradientRule>(shape_in_step(attention_, step_, operands), operands);
  call.query_gradient_before = operands[query_gradient_before];
  kernels.run(call);
}

double RingAttentionGradientRule::flops(const Operands& operands) const {
  return 5 * product_flops_of_step(attention_, operands);
}

void RopeRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(Rope{operands[x], operands.shape().sequence, head_dimension_, operands[cosine], operands[sine],
                   inverse_, operands.indices(places)});
}

void RopeRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView gradient = derivation.gradient(node[x]);
  if (gradient && derivation.wants(node[x]))
    derivation.add(std::make_shared<RopeRule>(head_dimension_, !inverse_),
                   {gradient, node[cosine], node[sine], node[places]});
}

}  // namespace strata
