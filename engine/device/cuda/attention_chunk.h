// How the backward pass of attention is cut into calls of cuDNN. Its deterministic algorithm keeps a whole
// matrix of scores for every head of a call (cuDNN before 9.25), so calls get as many heads as a fixed amount
// of memory holds. Needs no CUDA.
#pragma once

#include <algorithm>
#include <optional>

#include "engine/device/attention_calls.h"
#include "engine/device/kernels.h"

namespace strata {

/// A cap on scores, and steps of a ring, are for the kernels of attention.cu.
inline bool cudnn_computes(const AttentionShape& shape) {
  return shape.soft_cap == 0 && shape.context.ranks == 1;
}

/// What one call computes: whole sequences with all heads, or some key/value heads of one sequence with the
/// heads that read them, or some of the heads that read one key/value head.
struct AttentionChunk {
  std::int64_t batch = 0;
  std::int64_t kv_heads = 0;
  std::int64_t group = 0;  ///< heads of each key/value head
  friend bool operator==(const AttentionChunk&, const AttentionChunk&) = default;
};

/// Scores of one call: of whole sequences, or of heads, or of some of the heads that read one key/value head.
/// Fewer do not fill a GPU: with 256 MiB the pass took 1.5 times as long on an H200, with 2 GiB 0.94 times.
constexpr Bytes kAttentionChunkBytes = GiB;
/// The most of one head, which is 32768 tokens.
constexpr Bytes kLargestHeadBytes = 2 * GiB;

inline std::int64_t largest_divisor(std::int64_t number, std::int64_t limit) {
  std::int64_t divisor = std::clamp<std::int64_t>(limit, 1, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

/// Counts the bytes of scores of one head of one sequence.
inline Bytes score_bytes(const AttentionShape& shape) {
  return align_up(shape.sequence, 64) * align_up(shape.sequence, 128) * size_of(DType::bf16);
}

/// Equal chunks that cover the shape; nothing if one head alone is too large.
inline std::optional<AttentionChunk> backward_chunk(const AttentionShape& shape) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  const Bytes head = score_bytes(shape), kv_head = group * head;
  if (head > kLargestHeadBytes) return std::nullopt;
  if (kv_head > kAttentionChunkBytes)
    return AttentionChunk{1, 1, largest_divisor(group, kAttentionChunkBytes / head)};
  const std::int64_t kv_heads = largest_divisor(shape.kv_heads, kAttentionChunkBytes / kv_head);
  if (kv_heads < shape.kv_heads) return AttentionChunk{1, kv_heads, group};
  return AttentionChunk{largest_divisor(shape.batch, kAttentionChunkBytes / (kv_head * kv_heads)), kv_heads,
                        group};
}

/// What each part of a call has.
inline AttentionShape part_shape(const AttentionShape& shape, const AttentionChunk& chunk) {
  AttentionShape part = shape;
  part.batch = chunk.batch;
  part.heads = chunk.kv_heads * chunk.group;
  part.kv_heads = chunk.kv_heads;
  return part;
}

/// Calls for each key/value head, whose gradients of it are summed.
inline std::int64_t parts_of_group(const AttentionShape& shape, const AttentionChunk& chunk) {
  return shape.heads / shape.kv_heads / chunk.group;
}

/// Counts the bytes of those gradients of key and value; none if there is one part.
inline Bytes head_gradient_bytes(const AttentionShape& shape, const AttentionChunk& chunk) {
  const std::int64_t parts = parts_of_group(shape, chunk);
  if (parts == 1) return 0;
  return 2 * align_up(parts * shape.sequence * shape.head_dimension * size_of(DType::fp32), kAlignment);
}

/// What cuDNN's workspace of a forward pass is taken to be: fp32 values per head and token.
inline Bytes cudnn_forward_bytes(const AttentionShape& shape) {
  return cudnn_computes(shape) ? 4 * shape.batch * shape.heads * shape.sequence * size_of(DType::fp32) : 0;
}

/// And of a backward pass: a chunk's scores, and its query's, key's and value's gradients in fp32.
inline Bytes cudnn_workspace_bytes(const AttentionShape& shape, const AttentionChunk& chunk) {
  const std::int64_t heads = chunk.batch * chunk.kv_heads * chunk.group;
  const Bytes gradient =
      align_up(shape.sequence, 128) * align_up(shape.head_dimension, 64) * size_of(DType::fp32);
  return heads * (score_bytes(shape) + 4 * gradient);
}

/// With the gradients of parts.
inline Bytes cudnn_backward_bytes(const AttentionShape& shape) {
  const std::optional<AttentionChunk> chunk = backward_chunk(shape);
  if (!chunk || !cudnn_computes(shape)) return 0;
  return cudnn_workspace_bytes(shape, *chunk) + head_gradient_bytes(shape, *chunk);
}

}  // namespace strata
