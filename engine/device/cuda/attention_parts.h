// The backward pass of attention as calls on parts of it (attention_chunk.h), each small enough for cuDNN.
// Where the heads that read one key/value head are apart, the gradients of key and value that each part gives
// are summed in the order of heads.
#pragma once

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

/// A part of the call, of the shape of all parts: `chunk.batch` sequences from `batch` on, `chunk.kv_heads`
/// key/value heads from `kv_head` on, and of each the `chunk.group` heads that are its `index`-th.
inline AttentionBackward part_of(const AttentionBackward& call, const AttentionChunk& chunk,
                                 const HeadGradients& gradients, std::int64_t batch = 0,
                                 std::int64_t kv_head = 0, std::int64_t index = 0) {
  const AttentionShape& whole = call.shape;
  const std::int64_t head = kv_head * (whole.heads / whole.kv_heads) + index * chunk.group;
  const std::int64_t heads = chunk.kv_heads * chunk.group;
  const auto of = [&](const Matrix& matrix, std::int64_t first, std::int64_t count) {
    return matrix.row_slice(batch * whole.sequence, chunk.batch * whole.sequence)
        .column_slice(first * whole.head_dimension, count * whole.head_dimension);
  };
  AttentionBackward part = {
      .shape = whole,
      .query = of(call.query, head, heads),
      .key = of(call.key, kv_head, chunk.kv_heads),
      .value = of(call.value, kv_head, chunk.kv_heads),
      .out = of(call.out, head, heads),
      .log_sum_exp = call.log_sum_exp.row_slice(batch * whole.heads + head, chunk.batch * heads),
      .out_gradient = of(call.out_gradient, head, heads),
      .query_gradient = of(call.query_gradient, head, heads),
      .key_gradient = of(call.key_gradient, kv_head, chunk.kv_heads),
      .value_gradient = of(call.value_gradient, kv_head, chunk.kv_heads)};
  part.shape.batch = chunk.batch;
  part.shape.heads = heads;
  part.shape.kv_heads = chunk.kv_heads;
  if (parts_of_group(whole, chunk) > 1) {
    part.key_gradient = gradients.key.column_slice(index * whole.head_dimension, whole.head_dimension);
    part.value_gradient = gradients.value.column_slice(index * whole.head_dimension, whole.head_dimension);
  }
  return part;
}

/// Calls run(part) for each part and sums what they leave in `gradients`.
template <typename Run>
void run_in_parts(const CudaContext& context, const AttentionBackward& call, const AttentionChunk& chunk,
                  const HeadGradients& gradients, const Run& run) {
  const std::int64_t parts = parts_of_group(call.shape, chunk), dimension = call.shape.head_dimension;
  for (std::int64_t batch = 0; batch < call.shape.batch; batch += chunk.batch) {
    for (std::int64_t kv_head = 0; kv_head < call.shape.kv_heads; kv_head += chunk.kv_heads) {
      for (std::int64_t i = 0; i < parts; ++i) run(part_of(call, chunk, gradients, batch, kv_head, i));
      if (parts == 1) continue;
      const auto of_head = [&](const Matrix& matrix) {
        return matrix.row_slice(batch * call.shape.sequence, call.shape.sequence)
            .column_slice(kv_head * dimension, dimension);
      };
      sum_parts_on_cuda(context, gradients.key, of_head(call.key_gradient));
      sum_parts_on_cuda(context, gradients.value, of_head(call.value_gradient));
    }
  }
}

}  // namespace strata
