// The backward pass of attention as calls on parts of it (attention_chunk.h), each small enough for cuDNN.
// Where the heads that read one key/value head are apart, the gradients of key and value that each part gives
// are summed in the order of heads.
#pragma once

#include "base/nth.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/cuda/context.h"

namespace strata {

/// Where parts of a group leave their gradients of key and value: side by side, a key/value head each.
/// [sequence, parts · head_dimension] of the gradients' dtype; neither if no group is cut.
struct HeadGradients {
  Matrix key, value;
};

/// In `memory` of head_gradient_bytes().
HeadGradients head_gradients(const AttentionBackward& call, const AttentionChunk& chunk, std::byte* memory);

/// out[row, column] = sum over i of parts[row, i · out.columns + column], in fp32, rounded once.
void sum_parts_on_cuda(const CudaContext& context, const Matrix& parts, const Matrix& out);

/// Where a part lies in a call: the first of its sequences, the first of its key/value heads, and which of
/// the parts of their groups.
struct AttentionPart {
  std::int64_t batch = 0;
  std::int64_t kv_head = 0;
  std::int64_t index = 0;
};

/// Calls body(AttentionPart) for each part.
template <typename Body>
void for_each_part(const AttentionShape& shape, const AttentionChunk& chunk, const Body& body) {
  for (std::int64_t batch = 0; batch < shape.batch; batch += chunk.batch) {
    for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; kv_head += chunk.kv_heads) {
      for (std::int64_t index = 0; index < parts_of_group(shape, chunk); ++index)
        body(AttentionPart{batch, kv_head, index});
    }
  }
}

/// A part's rows and columns of a call's operands.
class PartOperands {
 public:
  PartOperands(const AttentionShape& whole, const AttentionChunk& chunk, const AttentionPart& part)
      : whole_(whole), shape_(part_shape(whole, chunk)), part_(part) {
    head_ = part.kv_head * (whole.heads / whole.kv_heads) + part.index * chunk.group;
  }
  const AttentionShape& shape() const { return shape_; }

  Matrix of_heads(const Matrix& matrix) const { return slice(matrix, head_, shape_.heads); }
  Matrix of_kv_heads(const Matrix& matrix) const { return slice(matrix, part_.kv_head, shape_.kv_heads); }
  Matrix statistics(const Matrix& matrix) const {
    return matrix.row_slice(part_.batch * whole_.heads + head_, shape_.batch * shape_.heads);
  }
  Places places(const Places& places) const {
    if (places.empty()) return places;
    return strata::slice(places, part_.batch * whole_.sequence, shape_.batch * whole_.sequence);
  }

 private:
  Matrix slice(const Matrix& matrix, std::int64_t head, std::int64_t heads) const {
    return matrix.row_slice(part_.batch * whole_.sequence, shape_.batch * whole_.sequence)
        .column_slice(head * whole_.head_dimension, heads * whole_.head_dimension);
  }

  AttentionShape whole_, shape_;
  AttentionPart part_;
  std::int64_t head_ = 0;
};

/// A part of the call, of the shape of all parts. REQUIRES: nothing joins the call's result.
inline AttentionForward part_of(const AttentionForward& call, const AttentionChunk& chunk,
                                const AttentionPart& part = {}) {
  const PartOperands of(call.shape, chunk, part);
  return {.shape = of.shape(),
          .query = of.of_heads(call.query),
          .key = of.of_kv_heads(call.key),
          .value = of.of_kv_heads(call.value),
          .out = of.of_heads(call.out),
          .log_sum_exp = of.statistics(call.log_sum_exp),
          .places = of.places(call.places)};
}

/// Gradients of key and value go to `gradients` where groups are cut.
inline AttentionBackward part_of(const AttentionBackward& call, const AttentionChunk& chunk,
                                 const HeadGradients& gradients, const AttentionPart& part = {}) {
  const PartOperands of(call.shape, chunk, part);
  AttentionBackward backward = {.shape = of.shape(),
                                .query = of.of_heads(call.query),
                                .key = of.of_kv_heads(call.key),
                                .value = of.of_kv_heads(call.value),
                                .out = of.of_heads(call.out),
                                .log_sum_exp = of.statistics(call.log_sum_exp),
                                .out_gradient = of.of_heads(call.out_gradient),
                                .query_gradient = of.of_heads(call.query_gradient),
                                .key_gradient = of.of_kv_heads(call.key_gradient),
                                .value_gradient = of.of_kv_heads(call.value_gradient),
                                .places = of.places(call.places)};
  if (parts_of_group(call.shape, chunk) > 1) {
    const std::int64_t dimension = call.shape.head_dimension;
    backward.key_gradient = gradients.key.column_slice(part.index * dimension, dimension);
    backward.value_gradient = gradients.value.column_slice(part.index * dimension, dimension);
  }
  return backward;
}

/// Calls run(part) for each part and sums what they leave in `gradients`.
template <typename Run>
void run_in_parts(const CudaContext& context, const AttentionBackward& call, const AttentionChunk& chunk,
                  const HeadGradients& gradients, const Run& run) {
  const std::int64_t parts = parts_of_group(call.shape, chunk);
  for_each_part(call.shape, chunk, [&](const AttentionPart& part) {
    run(part_of(call, chunk, gradients, part));
    if (parts == 1 || part.index + 1 < parts) return;
    const PartOperands of(call.shape, chunk, part);
    sum_parts_on_cuda(context, gradients.key, of.of_kv_heads(call.key_gradient));
    sum_parts_on_cuda(context, gradients.value, of.of_kv_heads(call.value_gradient));
  });
}

}  // namespace strata
