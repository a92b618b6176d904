// Norms of heads as the norms and the rotation that they stand for: their meaning, and the way of a device
// that has no kernel of its own for a call. Pure functions; any thread.
#pragma once

#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"

namespace strata {

/// How many heads a HeadNormForward or HeadNormBackward has, those of keys included.
template <typename Call>
std::int64_t heads_of(const Call& call) {
  return call.x.columns / call.query_weight.columns;
}

/// Whether the head has the weight of queries.
template <typename Call>
bool is_query_head(const Call& call, std::int64_t head) {
  return head < heads_of(call) / (call.queries_per_key + 1) * call.queries_per_key;
}

/// Calls run(NormForward) for each head, then run(Rope) if heads are rotated.
template <typename Run>
void run_by_heads(const HeadNormForward& call, const Run& run) {
  const std::int64_t dimension = call.query_weight.columns;
  for (std::int64_t head = 0; head < heads_of(call); ++head) {
    run(NormForward{.kind = NormKind::rms_norm,
                    .epsilon = call.epsilon,
                    .input = call.x.column_slice(head * dimension, dimension),
                    .weight = is_query_head(call, head) ? call.query_weight : call.key_weight,
                    .unit_offset = call.unit_offset,
                    .out = call.out.column_slice(head * dimension, dimension),
                    .reciprocal_deviation = call.reciprocal_deviation.row_slice(head, 1)});
  }
  if (call.cosine)
    run(Rope{.x = call.out,
             .sequence = call.sequence,
             .head_dimension = dimension,
             .cosine = call.cosine,
             .sine = call.sine,
             .places = call.places});
}

/// Calls run(Rope), which turns the gradient back, if heads were rotated, then run(NormBackward) for each
/// head.
template <typename Run>
void run_by_heads(const HeadNormBackward& call, const Run& run) {
  const std::int64_t dimension = call.query_weight.columns;
  if (call.cosine)
    run(Rope{.x = call.gradient,
             .sequence = call.sequence,
             .head_dimension = dimension,
             .cosine = call.cosine,
             .sine = call.sine,
             .inverse = true,
             .places = call.places});
  for (std::int64_t head = 0; head < heads_of(call); ++head) {
    const bool is_query = is_query_head(call, head);
    const Matrix in_place = call.gradient.column_slice(head * dimension, dimension);
    run(NormBackward{.kind = NormKind::rms_norm,
                     .input = call.x.column_slice(head * dimension, dimension),
                     .weight = is_query ? call.query_weight : call.key_weight,
                     .unit_offset = call.unit_offset,
                     .reciprocal_deviation = call.reciprocal_deviation.row_slice(head, 1),
                     .out_gradient = in_place,
                     .input_gradient = in_place,
                     .weight_gradient = is_query ? call.query_weight_gradient : call.key_weight_gradient});
  }
}

}  // namespace strata
