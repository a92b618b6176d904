// Attention of one token of each sequence to the keys of a cache. A block has one head of one sequence, and
// goes through the keys in chunks with a running softmax. So every sum has a fixed order. A warp scores one
// key at a time, and a thread sums columns of the values.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

/// Also the keys of a chunk.
constexpr int kCacheThreads = 128;

template <typename T>
struct CachedHeads {
  Rows<const T> query, key, value;
  Rows<T> out;
  const std::int32_t* lengths;
  std::int64_t sequence, window;
  int dimension;
  int group;  ///< query heads of one key/value head
  float scale, soft_cap;
};

/// Warp w of n scores keys w, w + n, w + 2n, … of a chunk.
template <int width, typename T>
__device__ __forceinline__ void score_chunk(const CachedHeads<T>& heads, const T* keys, int count,
                                            const float* query, float (&scores)[kCacheThreads]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < count; i += kCacheThreads / kWarp) {
    const T* key = keys + i * heads.key.stride;
    float product = 0;
#pragma unroll 1
    for (int d = lane * width; d < heads.dimension; d += kWarp * width) {
      float values[width];
      to_floats(load_run<width>(key + d), values);
#pragma unroll
      for (int k = 0; k < width; ++k) product += query[d + k] * values[k];
    }
    product = over_warp<Sum>(product) * heads.scale;
    if (heads.soft_cap != 0) product = heads.soft_cap * tanhf(product / heads.soft_cap);
    if (lane == 0) scores[i] = product;
  }
}

template <int width, typename T>
__global__ void __launch_bounds__(kCacheThreads) cached_attention_kernel(CachedHeads<T> heads) {
  __shared__ float weights[kCacheThreads];
  auto* const query = dynamic_shared<float>();
  float* const sums = query + heads.dimension;
  const std::int64_t batch = blockIdx.y;
  const auto head = static_cast<std::int64_t>(blockIdx.x);
  const T* const from = heads.query.row(batch) + head * heads.dimension;
  for (int d = static_cast<int>(threadIdx.x); d < heads.dimension; d += kCacheThreads) {
    query[d] = to_float(from[d]);
    sums[d] = 0;
  }
  __syncthreads();
  const std::int64_t length = heads.lengths[batch];
  const std::int64_t begin = heads.window > 0 && heads.window < length ? length - heads.window : 0;
  const std::int64_t column = head / heads.group * heads.dimension;
  float largest = -FLT_MAX;  // finite, so that differences from it are never NaN
  float total = 0;
  for (std::int64_t first = begin; first < length; first += kCacheThreads) {
    const std::int64_t row = batch * heads.sequence + first;
    const int count = static_cast<int>(length - first < kCacheThreads ? length - first : kCacheThreads);
    score_chunk<width>(heads, heads.key.row(row) + column, count, query, weights);
    __syncthreads();
    const bool has_key = static_cast<int>(threadIdx.x) < count;
    const float score = has_key ? weights[threadIdx.x] : -INFINITY;
    const float previous = largest;
    largest = fmaxf(previous, block_max(score));
    const float weight = has_key ? expf(score - largest) : 0.0F;
    weights[threadIdx.x] = weight;
    const float shrink = expf(previous - largest);
    total = total * shrink + block_sum(weight);  // and all weights are there
    const T* const values = heads.value.row(row) + column;
#pragma unroll 1
    for (int d = static_cast<int>(threadIdx.x); d < heads.dimension; d += kCacheThreads) {
      float sum = sums[d] * shrink;
      const T* value = values + d;
#pragma unroll 2
      for (int i = 0; i < count; ++i, value += heads.value.stride) sum += weights[i] * to_float(*value);
      sums[d] = sum;
    }
    __syncthreads();  // the next chunk's scores take the place of the weights
  }
  T* const to = heads.out.row(batch) + head * heads.dimension;
  for (int d = static_cast<int>(threadIdx.x); d < heads.dimension; d += kCacheThreads)
    to[d] = from_float<T>(sums[d] / total);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const CachedAttention& call) {
  const AttentionShape& shape = call.shape;
  if (call.query.elements() == 0) return;
  with_storage_type(call.query.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kWidth = 16 / sizeof(T);
    const CachedHeads<T> heads = {.query = rows_of<const T>(call.query),
                                  .key = rows_of<const T>(call.key),
                                  .value = rows_of<const T>(call.value),
                                  .out = rows_of<T>(call.out),
                                  .lengths = call.lengths.data(),
                                  .sequence = shape.sequence,
                                  .window = shape.window,
                                  .dimension = static_cast<int>(shape.head_dimension),
                                  .group = static_cast<int>(shape.heads / shape.kv_heads),
                                  .scale = shape.scale,
                                  .soft_cap = shape.soft_cap};
    const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch));
    const std::size_t shared = 2 * sizeof(float) * static_cast<std::size_t>(shape.head_dimension);
    with_run<kWidth>(
        shape.head_dimension,
        [&](auto width) {
          launch(cached_attention_kernel<decltype(width)::value, T>, grid, dim3(kCacheThreads), shared,
                 context.stream, heads);
        },
        heads.key);
  });
}

}  // namespace strata
