// Routing of tokens to experts, and the rows of tokens on their way there and back.
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/expert_calls.h"
#include "engine/device/expert_rank.h"

namespace strata {
namespace {

constexpr int kTokenThreads = 128;  ///< of routing: a warp for each of four tokens
constexpr int kCombineThreads = 128;
constexpr int kCombineBlocks = 8;  ///< on a multiprocessor: 64 registers are enough
constexpr int kGroupThreads = 256;
constexpr int kBalanceThreads = 128;

__device__ std::uint64_t largest_over_warp(std::uint64_t rank) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const auto other = static_cast<std::uint64_t>(
        __shfl_xor_sync(0xffffffffU, static_cast<unsigned long long>(rank), distance));
    rank = other > rank ? other : rank;
  }
  return rank;
}

template <typename T>
struct RouteOperands {
  bool normalise;
  std::int64_t tokens, count, top_k;
  Rows<const T> logits;
  Rows<float> probabilities, weights;
  std::int32_t* experts;
};

/// All lanes learn every choice.
template <typename T>
__device__ std::uint64_t next_choice(const T* logits, std::int64_t count, std::uint64_t last) {
  std::uint64_t largest = 0;
  for (std::int64_t e = threadIdx.x; e < count; e += kWarp) {
    const std::uint64_t rank = rank_of(to_float(logits[e]), e);
    if (rank < last && rank > largest) largest = rank;
  }
  return largest_over_warp(largest);
}

/// A token per threadIdx.y.
template <typename T>
__global__ void __launch_bounds__(kTokenThreads) route_kernel(RouteOperands<T> x) {
  const std::int64_t token = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (token >= x.tokens) return;  // with its whole warp
  const T* logits = x.logits.row(token);
  float* probabilities = x.probabilities.row(token);
  float* weights = x.weights.row(token);
  std::int32_t* experts = x.experts + token * x.top_k;
  float largest = -FLT_MAX, total = 0;
  for (std::int64_t e = threadIdx.x; e < x.count; e += kWarp) largest = fmaxf(largest, to_float(logits[e]));
  largest = over_warp<Maximum>(largest);
  for (std::int64_t e = threadIdx.x; e < x.count; e += kWarp) total += expf(to_float(logits[e]) - largest);
  total = over_warp<Sum>(total);
  const auto probability = [&](std::int64_t e) { return expf(to_float(logits[e]) - largest) / total; };
  for (std::int64_t e = threadIdx.x; e < x.count; e += kWarp) probabilities[e] = probability(e);

  float sum = 0;
  std::uint64_t rank = kAboveAllRanks;
  for (std::int64_t s = 0; s < x.top_k; ++s) {
    rank = next_choice(logits, x.count, rank);
    sum += probability(expert_of(rank));
  }
  rank = kAboveAllRanks;
  for (std::int64_t s = 0; s < x.top_k; ++s) {
    rank = next_choice(logits, x.count, rank);
    if (threadIdx.x != 0) continue;
    const std::int32_t expert = expert_of(rank);
    experts[s] = expert;
    weights[s] = x.normalise ? probability(expert) / sum : probability(expert);
  }
}

template <typename T>
struct RouteGradients {
  bool normalise;
  std::int64_t tokens, count, top_k;
  Rows<const float> probabilities, weights, weights_gradient;
  const std::int32_t* experts;
  const float* balance;  ///< may be null
  Rows<T> logits_gradient;
};

/// What a token's weights give to the gradient of one expert's probability, if they are probabilities, or of
/// its logit.
template <typename T>
__device__ float weight_gradient(const RouteGradients<T>& x, std::int64_t token, std::int64_t expert,
                                 float common) {
  for (std::int64_t s = 0; s < x.top_k; ++s) {
    if (x.experts[token * x.top_k + s] != expert) continue;
    const float given = x.weights_gradient.row(token)[s];
    return x.normalise ? x.weights.row(token)[s] * (given - common) : given;
  }
  return 0.0F;
}

/// A token per threadIdx.y.
template <typename T>
__global__ void __launch_bounds__(kTokenThreads) route_backward_kernel(RouteGradients<T> x) {
  const std::int64_t token = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (token >= x.tokens) return;  // with its whole warp
  const float* probabilities = x.probabilities.row(token);
  float common = 0;
  for (std::int64_t s = 0; s < x.top_k; ++s)
    common += x.weights_gradient.row(token)[s] * x.weights.row(token)[s];
  const auto probability_gradient = [&](std::int64_t e) {
    const float balance = x.balance == nullptr ? 0.0F : x.balance[e];
    return x.normalise ? balance : balance + weight_gradient(x, token, e, common);
  };
  float mean = 0;
  for (std::int64_t e = threadIdx.x; e < x.count; e += kWarp)
    mean += probabilities[e] * probability_gradient(e);
  mean = over_warp<Sum>(mean);
  T* to = x.logits_gradient.row(token);
  for (std::int64_t e = threadIdx.x; e < x.count; e += kWarp) {
    const float gradient = probabilities[e] * (probability_gradient(e) - mean);
    to[e] = from_float<T>(x.normalise ? gradient + weight_gradient(x, token, e, common) : gradient);
  }
}

/// One block; `loss` and `balance` may be null.
__global__ void __launch_bounds__(kBalanceThreads)
    balance_kernel(const float* counts, const float* sums, std::int64_t experts, double factor,
                   const float* loss_scale, float* loss, float* balance) {
  const double scale = loss_scale == nullptr ? 1 : *loss_scale;
  for (std::int64_t e = threadIdx.x; balance != nullptr && e < experts; e += kBalanceThreads)
    balance[e] = static_cast<float>(factor * scale * static_cast<double>(counts[e]));
  if (threadIdx.x != 0 || loss == nullptr) return;
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    sum += static_cast<double>(counts[e]) * static_cast<double>(sums[e]);
  *loss = static_cast<float>(factor * sum);
}

struct Grouping {
  const std::int32_t* groups;
  std::int64_t rows, copies;
  std::int32_t *sources, *places, *offsets;
};

/// A group per block, which counts the rows that go before, and its own: each thread those of a stretch of
/// rows. Then it writes them behind those of the threads before.
__global__ void __launch_bounds__(kGroupThreads) group_rows_kernel(Grouping x) {
  __shared__ std::int32_t before[kGroupThreads], own[kGroupThreads];
  const auto group = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t stretch = divide_rounding_up(x.rows, kGroupThreads);
  const std::int64_t first = threadIdx.x * stretch;
  const std::int64_t last = first + stretch < x.rows ? first + stretch : x.rows;
  std::int32_t lower = 0, equal = 0;
  for (std::int64_t row = first; row < last; ++row) {
    lower += x.groups[row] < group ? 1 : 0;
    equal += x.groups[row] == group ? 1 : 0;
  }
  before[threadIdx.x] = lower;
  own[threadIdx.x] = equal;
  __syncthreads();
  std::int32_t offset = 0, rows_of_group = 0, place = 0;
  for (unsigned thread = 0; thread < kGroupThreads; ++thread) {
    if (thread == threadIdx.x) place = rows_of_group;
    offset += before[thread];
    rows_of_group += own[thread];
  }
  place += offset;
  for (std::int64_t row = first; row < last; ++row) {
    if (x.groups[row] != group) continue;
    x.sources[place] = static_cast<std::int32_t>(row / x.copies);
    x.places[row] = place++;
  }
  if (threadIdx.x != 0) return;
  x.offsets[group] = offset;
  if (blockIdx.x + 1 == gridDim.x) x.offsets[group + 1] = offset + rows_of_group;
}

/// A group per thread.
__global__ void __launch_bounds__(kGroupThreads)
    count_rows_kernel(const std::int32_t* offsets, std::int64_t groups, float* counts) {
  const std::int64_t group = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group < groups) counts[group] += static_cast<float>(offsets[group + 1] - offsets[group]);
}

/// A token per block.
template <int run, typename T>
__global__ void __launch_bounds__(kCombineThreads, kCombineBlocks)
    combine_kernel(Rows<const T> x, const std::int32_t* places, Rows<const float> weights, std::int64_t slots,
                   Rows<T> out, std::int64_t columns) {
  const std::int64_t token = blockIdx.x;
  for (std::int64_t column = std::int64_t{threadIdx.x} * run; column < columns;
       column += kCombineThreads * run) {
    float total[run] = {};
    for (std::int64_t s = 0; s < slots; ++s) {
      const float weight = weights.data == nullptr ? 1.0F : weights.row(token)[s];
      const auto values = load_run<run>(x.row(places[token * slots + s]) + column);
#pragma unroll
      for (int i = 0; i < run; ++i) total[i] += weight * to_float(values.values[i]);
    }
    store_run(from_floats<T>(total), out.row(token) + column);
  }
}

/// A row of x per block.
template <int run, typename T>
__global__ void __launch_bounds__(kCombineThreads, kCombineBlocks)
    combine_backward_kernel(Rows<const T> x, const std::int32_t* places, Rows<const float> weights,
                            std::int64_t slots, Rows<const T> out_gradient, Rows<T> x_gradient,
                            Rows<float> weights_gradient, std::int64_t columns) {
  const std::int64_t token = blockIdx.x / slots, slot = blockIdx.x % slots;
  const std::int32_t place = places[blockIdx.x];
  const float weight = weights.row(token)[slot];
  float total = 0;
  for (std::int64_t column = std::int64_t{threadIdx.x} * run; column < columns;
       column += kCombineThreads * run) {
    float gradient[run], values[run];
    to_floats(load_run<run>(out_gradient.row(token) + column), gradient);
    to_floats(load_run<run>(x.row(place) + column), values);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      total += values[i] * gradient[i];
      gradient[i] *= weight;
    }
    store_run(from_floats<T>(gradient), x_gradient.row(place) + column);
  }
  total = block_sum(total);
  if (threadIdx.x == 0) weights_gradient.row(token)[slot] = total;
}

dim3 grid_of_tokens(std::int64_t tokens) {
  return dim3(static_cast<unsigned>(divide_rounding_up(tokens, kTokenThreads / kWarp)));
}
dim3 block_of_tokens() {
  return dim3(kWarp, kTokenThreads / kWarp);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const RouteForward& call) {
  if (call.logits.rows == 0) return;
  with_storage_type(call.logits.dtype, [&](auto element) {
    using T = decltype(element);
    const RouteOperands<T> x = {.normalise = call.normalise,
                                .tokens = call.logits.rows,
                                .count = call.logits.columns,
                                .top_k = call.weights.columns,
                                .logits = rows_of<const T>(call.logits),
                                .probabilities = rows_of<float>(call.probabilities),
                                .weights = rows_of<float>(call.weights),
                                .experts = call.experts.data()};
    launch(route_kernel<T>, grid_of_tokens(x.tokens), block_of_tokens(), 0, context.stream, x);
  });
}

void run_on_cuda(const CudaContext& context, const RouteBackward& call) {
  if (call.probabilities.rows == 0) return;
  with_storage_type(call.logits_gradient.dtype, [&](auto element) {
    using T = decltype(element);
    const RouteGradients<T> x = {.normalise = call.normalise,
                                 .tokens = call.probabilities.rows,
                                 .count = call.probabilities.columns,
                                 .top_k = call.weights.columns,
                                 .probabilities = rows_of<const float>(call.probabilities),
                                 .weights = rows_of<const float>(call.weights),
                                 .weights_gradient = rows_of<const float>(call.weights_gradient),
                                 .experts = call.experts.data(),
                                 .balance = rows_of<const float>(call.balance).data,
                                 .logits_gradient = rows_of<T>(call.logits_gradient)};
    launch(route_backward_kernel<T>, grid_of_tokens(x.tokens), block_of_tokens(), 0, context.stream, x);
  });
}

void run_on_cuda(const CudaContext& context, const LoadBalance& call) {
  const double factor = call.coefficient * static_cast<double>(call.counts.columns) / (call.rows * call.rows);
  launch(balance_kernel, dim3(1), dim3(kBalanceThreads), 0, context.stream, call.counts.row<const float>(0),
         call.probability_sums.row<const float>(0), call.counts.columns, factor, call.loss_scale,
         rows_of<float>(call.loss).data, rows_of<float>(call.balance).data);
}

void run_on_cuda(const CudaContext& context, const GroupRows& call) {
  const Grouping x = {.groups = call.groups.data(),
                      .rows = static_cast<std::int64_t>(call.groups.size()),
                      .copies = call.copies,
                      .sources = call.sources.data(),
                      .places = call.places.data(),
                      .offsets = call.offsets.data()};
  launch(group_rows_kernel, dim3(static_cast<unsigned>(call.offsets.size() - 1)), dim3(kGroupThreads), 0,
         context.stream, x);
}

void run_on_cuda(const CudaContext& context, const CountRows& call) {
  const std::int64_t groups = call.counts.columns;
  launch(count_rows_kernel, dim3(static_cast<unsigned>(divide_rounding_up(groups, kGroupThreads))),
         dim3(kGroupThreads), 0, context.stream, call.offsets.data(), groups, call.counts.row<float>(0));
}

void run_on_cuda(const CudaContext& context, const CombineRows& call) {
  assert(static_cast<std::int64_t>(call.places.size()) == call.x.rows);
  if (call.out.rows == 0) return;
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto x = rows_of<const T>(call.x);
    const auto out = rows_of<T>(call.out);
    const auto enqueue = [&](auto run) {
      launch(combine_kernel<run(), T>, dim3(static_cast<unsigned>(call.out.rows)), dim3(kCombineThreads), 0,
             context.stream, x, call.places.data(), rows_of<const float>(call.weights),
             call.x.rows / call.out.rows, out, call.out.columns);
    };
    with_run<16 / sizeof(T)>(call.out.columns, enqueue, x, out);
  });
}

void run_on_cuda(const CudaContext& context, const CombineRowsBackward& call) {
  assert(static_cast<std::int64_t>(call.places.size()) == call.x.rows);
  if (call.x.rows == 0) return;
  with_storage_type(call.x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto x = rows_of<const T>(call.x);
    const auto out_gradient = rows_of<const T>(call.out_gradient);
    const auto x_gradient = rows_of<T>(call.x_gradient);
    const auto enqueue = [&](auto run) {
      launch(combine_backward_kernel<run(), T>, dim3(static_cast<unsigned>(call.x.rows)),
             dim3(kCombineThreads), 0, context.stream, x, call.places.data(),
             rows_of<const float>(call.weights), call.weights.columns, out_gradient, x_gradient,
             rows_of<float>(call.weights_gradient), call.x.columns);
    };
    with_run<16 / sizeof(T)>(call.x.columns, enqueue, x, out_gradient, x_gradient);
  });
}

}  // namespace strata
