// Causal attention in plain fp32 arithmetic: what runs if cuDNN does not, and what it is compared with. A
// block owns one tile of one head and meets the other tiles in ascending order, so every sum has a fixed
// order (Dao et al. 2022).
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/storage_type.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_tile.cuh"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"

namespace strata {
namespace {

using namespace attention_tile;

__host__ __device__ int tiles_of(const Shape& shape) {
  return (shape.sequence + kTile - 1) / kTile;
}

/// The first tile of keys that some query from `query` on sees.
__device__ int first_key_tile(const Shape& shape, int batch, int query) {
  return shape.keys.below(shape.queries.at(query) - shape.reach_of(batch, query)) / kTile * kTile;
}

/// One past the last key that some query of the tile at `query_first` sees.
__device__ int end_of_keys(const Shape& shape, int query_first) {
  const int last = std::min(shape.sequence, query_first + kTile) - 1;
  return shape.keys.below(shape.queries.at(last) + 1);
}

/// The first tile of queries that sees some key of the tile at `key_first`.
__device__ int first_query_tile(const Shape& shape, int key_first) {
  return shape.queries.below(shape.keys.at(key_first)) / kTile * kTile;
}

/// One past the last query that sees some key of the tile at `key_first`.
__device__ int end_of_queries(const Shape& shape, int batch, int key_first) {
  const int last = shape.keys.at(std::min(shape.sequence, key_first + kTile) - 1);
  int end = shape.queries.below(last + shape.reach + 1);
  if (shape.places == nullptr) return end;
  // Where documents begin never falls from one query to the next.
  int begin = 0;
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (shape.queries.at(middle) - shape.place_of(batch, middle) <= last) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return end;
}

/// What softmax is given for a product of query and key.
__device__ float score_of(const Shape& shape, float product) {
  const float score = shape.scale * product;
  return shape.soft_cap == 0 ? score : shape.soft_cap * tanhf(score / shape.soft_cap);
}

/// The softmax of a tile of queries as far as keys have been seen.
struct RunningSoftmax {
  float largest[kMine];  ///< finite from the start, so that differences from it are never NaN
  float total[kMine];    ///< of exp(score - largest)
};

/// Turns scores into weights in shared memory; `shrink`: the factor on the sums of before.
__device__ void add_to_softmax(const Shape& shape, int batch, int query_first, int key_first,
                               const Scores& scores, RunningSoftmax& softmax, Shared& shared,
                               float (&shrink)[kMine]) {
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int reach = shape.reach_of(batch, query_first + my_row(i));
    float scaled[kMine];
    float largest = softmax.largest[i];
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const bool seen = visible(shape, reach, query_first + my_row(i), key_first + my_score_column(j));
      scaled[j] = seen ? score_of(shape, scores[i][j]) : -INFINITY;
      largest = fmaxf(largest, scaled[j]);
    }
    largest = over_row<Maximum>(largest);
    float total = 0;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const float weight = expf(scaled[j] - largest);
      shared.weights[my_row(i)][my_score_column(j)] = weight;
      total += weight;
    }
    shrink[i] = expf(softmax.largest[i] - largest);
    softmax.total[i] = softmax.total[i] * shrink[i] + over_row<Sum>(total);
    softmax.largest[i] = largest;
  }
}

template <typename T>
struct ForwardOperands {
  Operand<const T> query, key, value;
  Result<T> out;
  Rows<float> log_sum_exp;
  Operand<const float> before;  ///< null: none
  Rows<const float> log_sum_exp_before;
};

/// Goes on from what other keys have given: sums that were divided by a total, whose logarithm is known.
template <int slices>
__device__ void continue_from(const Head<const float>& before, const float* log_sum_exp, int first_row,
                              RunningSoftmax& softmax, Sums<slices>& sums) {
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = first_row + my_row(i);
    if (row >= before.rows) continue;
    softmax.largest[i] = log_sum_exp[row];
    softmax.total[i] = 1;
#pragma unroll
    for (int s = 0; s < slices; ++s) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const int column = s * kSlice + my_slice_column() + j;
        if (column < before.columns) sums[s][i][j] = before.data[row * before.stride + column];
      }
    }
  }
}

template <typename T, int slices>
__global__ void __launch_bounds__(kThreads, slices <= 4 ? 2 : 1)
    attention_kernel(Shape shape, ForwardOperands<T> x) {
  __shared__ Shared shared;
  const Place place(shape, shape.heads);
  const int query_first = (tiles_of(shape) - 1 - place.tile) * kTile;
  if (leaves_tile(shape, place.batch, query_first)) return;
  const Head<const T> query = head_of(x.query, shape, place.batch, place.head);
  const Head<const T> key = head_of(x.key, shape, place.batch, place.head / shape.group);
  const Head<const T> value = head_of(x.value, shape, place.batch, place.head / shape.group);
  RunningSoftmax softmax;
  for (int i = 0; i < kMine; ++i) softmax.largest[i] = -FLT_MAX, softmax.total[i] = 0;
  Sums<slices> sums = {};
  const std::int64_t statistics_row = std::int64_t{place.batch} * shape.heads + place.head;
  if (x.before.data != nullptr) {
    continue_from<slices>(head_of(x.before, shape, place.batch, place.head),
                          x.log_sum_exp_before.row(statistics_row), query_first, softmax, sums);
  }
  const int key_end = end_of_keys(shape, query_first);
  for (int key_first = first_key_tile(shape, place.batch, query_first); key_first < key_end;
       key_first += kTile) {
    Scores scores = {};
    add_scores(query, query_first, key, key_first, shared, scores);
    float shrink[kMine];
    add_to_softmax(shape, place.batch, query_first, key_first, scores, softmax, shared, shrink);
#pragma unroll
    for (int s = 0; s < slices; ++s) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        for (int j = 0; j < kPairs; ++j) sums[s][i][j] *= shrink[i];
      }
    }
    add_weighted_rows<slices>(value, key_first, shared, sums);
  }
  float reciprocal[kMine];
  for (int i = 0; i < kMine; ++i) reciprocal[i] = 1 / softmax.total[i];
  const ResultHead<T> out = head_of(x.out, shape, place.batch, place.head);
  store_rows<slices>(sums, reciprocal, out, query_first);
  float* log_sum_exp = x.log_sum_exp.row(statistics_row);
  for (int i = 0; i < kMine; ++i) {
    const int token = query_first + my_row(i);
    if (my_score_column(0) == 0 && out.has(token)) {
      log_sum_exp[token] = softmax.largest[i] + logf(softmax.total[i]);
    }
  }
}

template <typename T>
struct BackwardOperands {
  Operand<const T> query, key, value, out, out_gradient;
  Rows<const float> log_sum_exp;
  Result<T> query_gradient, key_gradient, value_gradient;
  Operand<const float> query_gradient_before;  ///< null: none
  float* projection;                           ///< [batch · heads, sequence]: out · out_gradient
};

/// Scalars of a query that the backward kernels need.
struct QueryStatistics {
  template <typename T>
  __device__ QueryStatistics(const BackwardOperands<T>& x, const Shape& shape, int batch, int head)
      : log_sum_exp(x.log_sum_exp.row(batch * shape.heads + head)),
        projection(x.projection + (std::int64_t{batch} * shape.heads + head) * shape.sequence) {}
  const float *log_sum_exp, *projection;
};

/// A warp per token and head.
template <typename T>
__global__ void __launch_bounds__(kThreads) out_projection_kernel(Shape shape, BackwardOperands<T> x) {
  const std::int64_t index = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (index >= std::int64_t{shape.batch} * shape.sequence * shape.heads) return;
  const std::int64_t row = index / shape.heads, head = index % shape.heads;
  if (shape.leaves(0, static_cast<int>(row))) return;
  const T* out = x.out.data + row * x.out.stride + head * shape.dimension;
  const T* out_gradient = x.out_gradient.data + row * x.out_gradient.stride + head * shape.dimension;
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x) % kWarp; d < shape.dimension; d += kWarp) {
    sum = fmaf(to_float(out[d]), to_float(out_gradient[d]), sum);
  }
  sum = over_warp<Sum>(sum);
  if (threadIdx.x % kWarp == 0) {
    x.projection[(row / shape.sequence * shape.heads + head) * shape.sequence + row % shape.sequence] = sum;
  }
}

/// sums = factor · sums + the tile's rows of x.
template <int slices>
__device__ void add_rows(const Head<const float>& x, int first_row, float factor, Sums<slices>& sums) {
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = first_row + my_row(i);
    if (row >= x.rows) continue;
#pragma unroll
    for (int s = 0; s < slices; ++s) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const int column = s * kSlice + my_slice_column() + j;
        if (column < x.columns) sums[s][i][j] = fmaf(factor, sums[s][i][j], x.data[row * x.stride + column]);
      }
    }
  }
}

// For the formulas of the backward see engine/device/reference/attention.cpp.

/// A key's weight again, and the derivative of the cap on its score.
struct Weight {
  __device__ Weight(const Shape& shape, float product, float log_sum_exp) {
    float exponent = shape.scale * product - log_sum_exp;
    if (shape.soft_cap > 0) {
      const float tangent = tanhf(shape.scale * product / shape.soft_cap);
      exponent = shape.soft_cap * tangent - log_sum_exp;
      slope = 1.0F - tangent * tangent;
    }
    value = expf(exponent);
  }
  float value, slope = 1;
};

template <typename T, int slices>
__global__ void __launch_bounds__(kThreads, slices <= 4 ? 2 : 1)
    query_gradient_kernel(Shape shape, BackwardOperands<T> x) {
  __shared__ Shared shared;
  const Place place(shape, shape.heads);
  const int query_first = (tiles_of(shape) - 1 - place.tile) * kTile;
  if (leaves_tile(shape, place.batch, query_first)) return;
  const Head<const T> query = head_of(x.query, shape, place.batch, place.head);
  const Head<const T> out_gradient = head_of(x.out_gradient, shape, place.batch, place.head);
  const Head<const T> key = head_of(x.key, shape, place.batch, place.head / shape.group);
  const Head<const T> value = head_of(x.value, shape, place.batch, place.head / shape.group);
  const QueryStatistics statistics(x, shape, place.batch, place.head);
  Sums<slices> sums = {};
  const int key_end = end_of_keys(shape, query_first);
  for (int key_first = first_key_tile(shape, place.batch, query_first); key_first < key_end;
       key_first += kTile) {
    Scores scores = {}, weight_gradients = {};
    add_scores(query, query_first, key, key_first, shared, scores);
    add_scores(out_gradient, query_first, value, key_first, shared, weight_gradients);
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int token = query_first + my_row(i);
      const int reach = shape.reach_of(place.batch, token);
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        float score_gradient = 0;
        if (visible(shape, reach, token, key_first + my_score_column(j))) {
          const Weight weight(shape, scores[i][j], statistics.log_sum_exp[token]);
          score_gradient =
              weight.value * (weight_gradients[i][j] - statistics.projection[token]) * weight.slope;
        }
        shared.weights[my_row(i)][my_score_column(j)] = score_gradient;
      }
    }
    add_weighted_rows<slices>(key, key_first, shared, sums);
  }
  const float factors[kMine] = {shape.scale, shape.scale, shape.scale, shape.scale};
  if (x.query_gradient_before.data != nullptr) {
    const float ones[kMine] = {1, 1, 1, 1};
    add_rows<slices>(head_of(x.query_gradient_before, shape, place.batch, place.head), query_first,
                     shape.scale, sums);
    store_rows<slices>(sums, ones, head_of(x.query_gradient, shape, place.batch, place.head), query_first);
    return;
  }
  store_rows<slices>(sums, factors, head_of(x.query_gradient, shape, place.batch, place.head), query_first);
}

/// Scores are transposed here: rows are keys. A key/value head collects from all the query heads that read
/// it, in order.
template <typename T, int slices>
__global__ void __launch_bounds__(kThreads) key_value_gradient_kernel(Shape shape, BackwardOperands<T> x) {
  __shared__ Shared shared;
  const int kv_heads = shape.heads / shape.group;
  const Place place(shape, kv_heads);
  const int key_first = place.tile * kTile;
  if (leaves_tile(shape, place.batch, key_first)) return;
  const int query_end = end_of_queries(shape, place.batch, key_first);
  const Head<const T> key = head_of(x.key, shape, place.batch, place.head);
  const Head<const T> value = head_of(x.value, shape, place.batch, place.head);
  Sums<slices> key_sums = {}, value_sums = {};
  for (int head = place.head * shape.group; head < (place.head + 1) * shape.group; ++head) {
    const Head<const T> query = head_of(x.query, shape, place.batch, head);
    const Head<const T> out_gradient = head_of(x.out_gradient, shape, place.batch, head);
    const QueryStatistics statistics(x, shape, place.batch, head);
    for (int query_first = first_query_tile(shape, key_first); query_first < query_end;
         query_first += kTile) {
      Scores scores = {}, score_gradients = {};
      add_scores(key, key_first, query, query_first, shared, scores);
      add_scores(value, key_first, out_gradient, query_first, shared, score_gradients);
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        const int token = query_first + my_score_column(j);
        const int reach = shape.reach_of(place.batch, token);
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          float value = 0;
          if (visible(shape, reach, token, key_first + my_row(i))) {
            const Weight weight(shape, scores[i][j], statistics.log_sum_exp[token]);
            value = weight.value;
            score_gradients[i][j] =
                value * (score_gradients[i][j] - statistics.projection[token]) * weight.slope;
          } else {
            score_gradients[i][j] = 0;
          }
          shared.weights[my_row(i)][my_score_column(j)] = value;
        }
      }
      add_weighted_rows<slices>(out_gradient, query_first, shared, value_sums);
      __syncthreads();  // every thread is done with the weights
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int j = 0; j < kMine; ++j) shared.weights[my_row(i)][my_score_column(j)] = score_gradients[i][j];
      }
      add_weighted_rows<slices>(query, query_first, shared, key_sums);
    }
  }
  const float ones[kMine] = {1, 1, 1, 1};
  const float scales[kMine] = {shape.scale, shape.scale, shape.scale, shape.scale};
  store_rows<slices>(value_sums, ones, head_of(x.value_gradient, shape, place.batch, place.head), key_first);
  store_rows<slices>(key_sums, scales, head_of(x.key_gradient, shape, place.batch, place.head), key_first);
}

RowPositions row_positions(const Positions& positions) {
  return {.rows = static_cast<int>(positions.rows),
          .first = static_cast<int>(positions.first),
          .gap = static_cast<int>(positions.gap)};
}

Shape shape_of(const AttentionShape& shape, const Places& places) {
  assert(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  const std::int64_t whole = shape.context.ranks * shape.sequence;
  return {.batch = static_cast<int>(shape.batch),
          .sequence = static_cast<int>(shape.sequence),
          .heads = static_cast<int>(shape.heads),
          .dimension = static_cast<int>(shape.head_dimension),
          .group = static_cast<int>(shape.heads / shape.kv_heads),
          .reach = static_cast<int>(shape.window == 0 ? whole : std::min(shape.window - 1, whole)),
          .scale = shape.scale,
          .soft_cap = shape.soft_cap,
          .queries = row_positions(shape.queries()),
          .keys = row_positions(shape.keys()),
          .places = places.data()};
}

template <typename T>
Operand<T> operand(const Matrix& x, const Shape& shape) {
  const Rows<T> rows = rows_of<T>(x);
  return {rows.data, rows.stride, shape.dimension % kLoaded == 0 && is_aligned<16 / sizeof(T)>(rows)};
}

template <typename T>
Result<T> result(const Matrix& x) {
  const bool in_fp32 = x.dtype == DType::fp32;
  return {in_fp32 ? nullptr : rows_of<T>(x).data, in_fp32 ? rows_of<float>(x).data : nullptr, x.stride};
}

/// A block for each tile of `heads` heads.
dim3 grid_of(const Shape& shape, int heads) {
  return dim3(static_cast<unsigned>(tiles_of(shape) * shape.batch * heads));
}

/// Calls call(slices) with the least number of slices, of those that are compiled, that holds a head.
template <typename Call>
void with_slices(std::int64_t dimension, const Call& call) {
  if (dimension <= 2 * kSlice) {
    call(std::integral_constant<int, 2>());
  } else if (dimension <= 4 * kSlice) {
    call(std::integral_constant<int, 4>());
  } else if (dimension <= 8 * kSlice) {
    call(std::integral_constant<int, 8>());
  } else {
    throw DeviceError("attention on CUDA: head_dimension is " + std::to_string(dimension) +
                      ", it must not exceed 256");
  }
}

template <typename T>
void attention_of_type(const CudaContext& context, const AttentionForward& call) {
  const Shape shape = shape_of(call.shape, call.places);
  ForwardOperands<T> x = {.query = operand<const T>(call.query, shape),
                          .key = operand<const T>(call.key, shape),
                          .value = operand<const T>(call.value, shape),
                          .out = result<T>(call.out),
                          .log_sum_exp = rows_of<float>(call.log_sum_exp),
                          .before = {},
                          .log_sum_exp_before = {}};
  if (call.before) {
    x.before = operand<const float>(call.before, shape);
    x.log_sum_exp_before = rows_of<const float>(call.log_sum_exp_before);
  }
  with_slices(shape.dimension, [&](auto slices) {
    launch(attention_kernel<T, slices()>, grid_of(shape, shape.heads), dim3(kThreads), 0, context.stream,
           shape, x);
  });
}

template <typename T>
void attention_backward_of_type(const CudaContext& context, const AttentionBackward& call) {
  const Shape shape = shape_of(call.shape, call.places);
  const std::int64_t statistics = call.shape.batch * call.shape.heads * call.shape.sequence;
  std::byte* scratch = context.scratch.at_least(scratch_on_cuda(call));
  BackwardOperands<T> x = {.query = operand<const T>(call.query, shape),
                           .key = operand<const T>(call.key, shape),
                           .value = operand<const T>(call.value, shape),
                           .out = operand<const T>(call.out, shape),
                           .out_gradient = operand<const T>(call.out_gradient, shape),
                           .log_sum_exp = rows_of<const float>(call.log_sum_exp),
                           .query_gradient = result<T>(call.query_gradient),
                           .key_gradient = result<T>(call.key_gradient),
                           .value_gradient = result<T>(call.value_gradient),
                           .query_gradient_before = {},
                           .projection = reinterpret_cast<float*>(scratch)};
  if (call.query_gradient_before)
    x.query_gradient_before = operand<const float>(call.query_gradient_before, shape);
  launch(out_projection_kernel<T>,
         dim3(static_cast<unsigned>(divide_rounding_up(statistics, kThreads / kWarp))), dim3(kThreads), 0,
         context.stream, shape, x);
  with_slices(shape.dimension, [&](auto slices) {
    launch(query_gradient_kernel<T, slices()>, grid_of(shape, shape.heads), dim3(kThreads), 0, context.stream,
           shape, x);
    launch(key_value_gradient_kernel<T, slices()>, grid_of(shape, shape.heads / shape.group), dim3(kThreads),
           0, context.stream, shape, x);
  });
}

}  // namespace

void run_on_cuda(const CudaContext& context, const AttentionForward& call) {
  if (call.out.rows == 0) return;
  with_storage_type(call.query.dtype,
                    [&](auto element) { attention_of_type<decltype(element)>(context, call); });
}

Bytes scratch_on_cuda(const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  return shape.batch * shape.heads * shape.sequence * size_of(DType::fp32);
}

void run_on_cuda(const CudaContext& context, const AttentionBackward& call) {
  if (call.out.rows == 0) return;
  with_storage_type(call.query.dtype,
                    [&](auto element) { attention_backward_of_type<decltype(element)>(context, call); });
}

}  // namespace strata
