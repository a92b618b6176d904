// Norms of heads of queries and keys together with their rotation. Some lanes of a warp have one head of one
// token. A lane has pairs of elements that are rotated with each other, so that each operand is read once.
// Heads that lanes do not fit go through the kernels of norms and rotations, one after another.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/column_sums.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/cuda/rotation.cuh"
#include "engine/device/head_norm.h"
#include "engine/device/norm_calls.h"

namespace strata {
namespace {

constexpr int kHeadThreads = 128;
constexpr std::int64_t kMostHeadBlocks =
    4 * 132;  ///< 4 on each of an H100's multiprocessors; sums' bits depend on it
constexpr std::int64_t kMinHeadsOfLanes = 8;  ///< that the same lanes go through

/// What both passes have.
template <typename T>
struct Heads {
  std::int64_t tokens, heads, query_heads, sequence;
  int dimension, lanes;  ///< lanes: a power of two
  float epsilon;
  bool unit_offset;
  Rows<const T> x;
  Rows<T> out;  ///< in the backward pass the gradient, in place
  const T *query_weight, *key_weight;
  Rows<float> deviation;
  Rows<const float> cosine, sine;  ///< data null: no rotation
  const std::int32_t* places;      ///< null: none

  __device__ int half() const { return dimension / 2; }
  __device__ bool is_query(std::int64_t head) const { return head < query_heads; }
};

/// A lane's elements of a head: `width` in its first half, and those of the second half that are rotated with
/// them.
template <int width>
struct Pairs {
  float first[width], second[width];
};

template <int width, typename T>
__device__ __forceinline__ Pairs<width> load_pairs(const T* head, int at, int half) {
  Pairs<width> pairs;
  to_floats(load_run<width>(head + at), pairs.first);
  to_floats(load_run<width>(head + half + at), pairs.second);
  return pairs;
}
template <int width, typename T>
__device__ __forceinline__ void store_pairs(const Pairs<width>& pairs, T* head, int at, int half) {
  store_run(from_floats<T>(pairs.first), head + at);
  store_run(from_floats<T>(pairs.second), head + half + at);
}

/// As if they had been stored.
template <typename T, int width>
__device__ __forceinline__ void round_pairs(Pairs<width>& pairs) {
#pragma unroll
  for (int k = 0; k < width; ++k) {
    pairs.first[k] = to_float(from_float<T>(pairs.first[k]));
    pairs.second[k] = to_float(from_float<T>(pairs.second[k]));
  }
}

/// The sum over the lanes of a head; all lanes of the warp call it.
__device__ __forceinline__ float over_lanes(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

/// One head of one token, as one of its lanes sees it. Lanes beyond the last head, and those that have no
/// elements, work on zeros and store nothing.
template <int width, typename T>
struct Head {
  __device__ Head(const Heads<T>& heads, std::int64_t index)
      : all(heads),
        at(static_cast<int>(threadIdx.x) % heads.lanes * width),
        is_there(index < heads.tokens * heads.heads && at < heads.half()),
        token(is_there ? index / heads.heads : 0),
        head(is_there ? index % heads.heads : 0) {}

  __device__ Pairs<width> load(const T* row) const {
    return is_there ? load_pairs<width>(row + head * all.dimension, at, all.half()) : Pairs<width>{};
  }
  __device__ void store(const Pairs<width>& pairs, T* row) const {
    if (is_there) store_pairs(pairs, row + head * all.dimension, at, all.half());
  }
  /// The factors of the head's columns.
  __device__ Pairs<width> weight() const {
    Pairs<width> factors = load_pairs<width>(all.is_query(head) ? all.query_weight : all.key_weight,
                                             is_there ? at : 0, all.half());
    if (all.unit_offset) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        factors.first[k] += 1.0F;
        factors.second[k] += 1.0F;
      }
    }
    return factors;
  }
  /// Turns what is rounded to T already; a direction of -1 turns it back.
  __device__ void rotate(Pairs<width>& pairs, float direction) const {
    if (all.cosine.data == nullptr) return;
    const std::int64_t position = all.places == nullptr ? token % all.sequence : all.places[token];
    float cosine[width], sine[width];
    load_table(all.cosine.row(position) + (is_there ? at : 0), cosine);
    load_table(all.sine.row(position) + (is_there ? at : 0), sine);
#pragma unroll
    for (int k = 0; k < width; ++k) sine[k] *= direction;
    strata::rotate(pairs.first, pairs.second, cosine, sine);
  }

  const Heads<T>& all;
  int at;
  bool is_there;
  std::int64_t token, head;
};

template <int width, typename T>
__global__ void __launch_bounds__(kHeadThreads) head_norm_kernel(Heads<T> heads) {
  const Head<width, T> head(heads, (std::int64_t{blockIdx.x} * kHeadThreads + threadIdx.x) / heads.lanes);
  Pairs<width> values = head.load(heads.x.row(head.token));
  float squares = 0;
#pragma unroll
  for (int k = 0; k < width; ++k)
    squares += values.first[k] * values.first[k] + values.second[k] * values.second[k];
  squares = over_lanes(squares, heads.lanes);
  const float deviation = 1.0F / sqrtf(squares / static_cast<float>(heads.dimension) + heads.epsilon);
  const Pairs<width> weight = head.weight();
#pragma unroll
  for (int k = 0; k < width; ++k) {
    values.first[k] = values.first[k] * deviation * weight.first[k];
    values.second[k] = values.second[k] * deviation * weight.second[k];
  }
  round_pairs<T>(values);
  head.rotate(values, 1.0F);
  head.store(values, heads.out.row(head.token));
  if (head.is_there && head.at == 0) heads.deviation.row(head.head)[head.token] = deviation;
}

/// A block goes through a stretch of heads and adds up the weights' gradients on the way, its lanes each
/// those of their columns; then it adds those of its lanes. sums: [blocks, query's and behind it key's
/// columns].
template <int width, typename T>
__global__ void __launch_bounds__(kHeadThreads)
    head_norm_backward_kernel(Heads<T> heads, std::int64_t heads_of_lanes, float* sums) {
  const std::int64_t at_once = kHeadThreads / heads.lanes;
  const std::int64_t begin = blockIdx.x * at_once * heads_of_lanes + threadIdx.x / heads.lanes;
  Pairs<width> query_sums = {}, key_sums = {};
  for (std::int64_t i = 0; i < heads_of_lanes; ++i) {
    const Head<width, T> head(heads, begin + i * at_once);
    Pairs<width> normalised = head.load(heads.x.row(head.token));
    Pairs<width> gradient = head.load(heads.out.row(head.token));
    const float deviation = head.is_there ? heads.deviation.row(head.head)[head.token] : 0.0F;
    head.rotate(gradient, -1.0F);
    round_pairs<T>(gradient);
    Pairs<width> scaled = head.weight();
    const bool is_query = heads.is_query(head.head);
    float projection = 0;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      normalised.first[k] *= deviation;
      normalised.second[k] *= deviation;
      // Chosen, not indexed: an array that is indexed lies in memory.
      const float first = gradient.first[k] * normalised.first[k];
      const float second = gradient.second[k] * normalised.second[k];
      query_sums.first[k] += is_query ? first : 0.0F;
      query_sums.second[k] += is_query ? second : 0.0F;
      key_sums.first[k] += is_query ? 0.0F : first;
      key_sums.second[k] += is_query ? 0.0F : second;
      scaled.first[k] *= gradient.first[k];
      scaled.second[k] *= gradient.second[k];
      projection += scaled.first[k] * normalised.first[k] + scaled.second[k] * normalised.second[k];
    }
    projection = over_lanes(projection, heads.lanes) / static_cast<float>(heads.dimension);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      scaled.first[k] = deviation * (scaled.first[k] - normalised.first[k] * projection);
      scaled.second[k] = deviation * (scaled.second[k] - normalised.second[k] * projection);
    }
    head.store(scaled, heads.out.row(head.token));
  }
  __shared__ float of_lanes[4][width][kHeadThreads];
#pragma unroll
  for (int k = 0; k < width; ++k) {
    of_lanes[0][k][threadIdx.x] = query_sums.first[k];
    of_lanes[1][k][threadIdx.x] = query_sums.second[k];
    of_lanes[2][k][threadIdx.x] = key_sums.first[k];
    of_lanes[3][k][threadIdx.x] = key_sums.second[k];
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < 2 * heads.dimension; column += kHeadThreads) {
    const int part = column / heads.half(), pair = column % heads.half();
    float sum = 0;
    for (int thread = pair / width; thread < kHeadThreads; thread += heads.lanes)
      sum += of_lanes[part][pair % width][thread];
    sums[blockIdx.x * 2 * heads.dimension + column] = sum;
  }
}

/// Lanes for each head; 0 if a head does not fit a warp.
int lanes_of_head(std::int64_t dimension, int width) {
  if (dimension % (2 * width) != 0 || dimension / (2 * width) > kWarp) return 0;
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(dimension / (2 * width))));
}

/// How a backward pass is cut. Depends on the shape only, as the sums' bits do.
struct HeadBlocks {
  std::int64_t count, heads_of_lanes;
};
HeadBlocks cut_heads(std::int64_t heads, int lanes) {
  const std::int64_t at_once = kHeadThreads / lanes;
  const std::int64_t heads_of_lanes =
      std::max(kMinHeadsOfLanes, divide_rounding_up(heads, at_once * kMostHeadBlocks));
  return {divide_rounding_up(heads, at_once * heads_of_lanes), heads_of_lanes};
}

template <typename T, typename Call>
Heads<T> heads_on_cuda(const Call& call, const Matrix& out) {
  const std::int64_t dimension = call.query_weight.columns;
  return {.tokens = call.x.rows,
          .heads = heads_of(call),
          .query_heads = heads_of(call) / (call.queries_per_key + 1) * call.queries_per_key,
          .sequence = call.sequence,
          .dimension = static_cast<int>(dimension),
          .lanes = lanes_of_head(dimension, 16 / sizeof(T)),
          .epsilon = 0,
          .unit_offset = call.unit_offset,
          .x = rows_of<const T>(call.x),
          .out = rows_of<T>(out),
          .query_weight = rows_of<const T>(call.query_weight).data,
          .key_weight = rows_of<const T>(call.key_weight).data,
          .deviation = rows_of<float>(call.reciprocal_deviation),
          .cosine = rows_of<const float>(call.cosine),
          .sine = rows_of<const float>(call.sine),
          .places = call.places.data()};
}

template <typename T>
bool fits_lanes(const Heads<T>& heads) {
  constexpr int kWidth = 16 / sizeof(T);
  return heads.lanes > 0 && is_aligned<kWidth>(heads.x) && is_aligned<kWidth>(heads.out) &&
         is_aligned<kWidth>(heads.query_weight) && is_aligned<kWidth>(heads.key_weight) &&
         is_aligned<kTableWidth<kWidth>>(heads.cosine) && is_aligned<kTableWidth<kWidth>>(heads.sine);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const HeadNormForward& norm) {
  if (norm.x.elements() == 0) return;
  with_storage_type(norm.x.dtype, [&](auto element) {
    using T = decltype(element);
    Heads<T> heads = heads_on_cuda<T>(norm, norm.out);
    if (!fits_lanes(heads)) return run_by_heads(norm, [&](const auto& call) { run_on_cuda(context, call); });
    heads.epsilon = norm.epsilon;
    const std::int64_t threads = heads.tokens * heads.heads * heads.lanes;
    launch(head_norm_kernel<16 / sizeof(T), T>,
           dim3(static_cast<unsigned>(divide_rounding_up(threads, kHeadThreads))), dim3(kHeadThreads), 0,
           context.stream, heads);
  });
}

/// Whether the operands are aligned is not known before there is memory.
Bytes scratch_on_cuda(const HeadNormBackward& norm) {
  if (norm.x.elements() == 0) return 0;
  Bytes bytes = 0;
  run_by_heads(norm, [&](const auto& call) { bytes = std::max(bytes, scratch_on_cuda(call)); });
  const std::int64_t dimension = norm.query_weight.columns;
  const int lanes = lanes_of_head(dimension, static_cast<int>(16 / size_of(norm.x.dtype)));
  if (lanes == 0) return bytes;
  const std::int64_t blocks = cut_heads(norm.x.rows * heads_of(norm), lanes).count;
  return std::max(bytes, blocks * 2 * dimension * size_of(DType::fp32));
}

void run_on_cuda(const CudaContext& context, const HeadNormBackward& norm) {
  if (norm.x.elements() == 0) return;
  with_storage_type(norm.x.dtype, [&](auto element) {
    using T = decltype(element);
    const Heads<T> heads = heads_on_cuda<T>(norm, norm.gradient);
    if (!fits_lanes(heads)) return run_by_heads(norm, [&](const auto& call) { run_on_cuda(context, call); });
    const HeadBlocks blocks = cut_heads(heads.tokens * heads.heads, heads.lanes);
    const std::int64_t dimension = heads.dimension;
    const Matrix sums(context.scratch.at_least(scratch_on_cuda(norm)), DType::fp32, blocks.count,
                      2 * dimension);
    launch(head_norm_backward_kernel<16 / sizeof(T), T>, dim3(static_cast<unsigned>(blocks.count)),
           dim3(kHeadThreads), 0, context.stream, heads, blocks.heads_of_lanes, sums.row<float>(0));
    if (norm.query_weight_gradient)
      add_partial_sums_on_cuda(context, sums.column_slice(0, dimension), norm.query_weight_gradient);
    if (norm.key_weight_gradient)
      add_partial_sums_on_cuda(context, sums.column_slice(dimension, dimension), norm.key_weight_gradient);
  });
}

}  // namespace strata
