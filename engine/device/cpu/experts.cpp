// Routing of tokens to experts, and the rows of tokens on their way there and back. A token is handled by one
// thread.
#include <algorithm>
#include <cassert>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#include "engine/device/expert_rank.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/experts.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/softmax-inl.h"
#include "engine/device/expert_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// experts[top_k] = those of the largest ranks, in descending order.
template <typename T>
HWY_INLINE void choose_experts(const T* logits, std::int64_t count, std::span<std::int32_t> experts) {
  std::uint64_t last = kAboveAllRanks;
  for (std::int32_t& expert : experts) {
    std::uint64_t largest = 0;
    for (std::int64_t e = 0; e < count; ++e) {
      const std::uint64_t rank = rank_of(static_cast<float>(logits[e]), e);
      if (rank < last) largest = std::max(largest, rank);
    }
    last = largest;
    expert = expert_of(largest);
  }
}

template <typename T>
HWY_INLINE void route_tokens(const RouteForward& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = call.logits.columns, top_k = call.weights.columns;
  for (std::int64_t token = begin; token < end; ++token) {
    const T* logits = call.logits.row<const T>(token);
    float* probabilities = call.probabilities.row<float>(token);
    const float total = write_exponentials(logits, count, row_maximum(logits, count), probabilities);
    map(probabilities, probabilities, count,
        [&](Float value) HWY_ATTR { return hn::Div(value, broadcast(total)); });
    const auto experts = slice(call.experts, token * top_k, top_k);
    choose_experts(logits, count, experts);
    float* weights = call.weights.row<float>(token);
    float sum = 0;
    for (const std::int32_t expert : experts) sum += probabilities[expert];
    for (std::size_t s = 0; s < experts.size(); ++s)
      weights[s] = call.normalise ? probabilities[experts[s]] / sum : probabilities[experts[s]];
  }
}

void route(const RouteForward& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.logits.dtype, [&]<typename T>(T) HWY_ATTR { route_tokens<T>(call, begin, end); });
}

/// gradients[experts] = those of a token's probabilities.
HWY_INLINE void write_probability_gradients(const RouteBackward& call, std::int64_t token, float* gradients) {
  const std::int64_t top_k = call.weights.columns;
  const std::int32_t* experts = call.experts.data() + token * top_k;
  const float* given = call.weights_gradient.row<const float>(token);
  if (call.balance) {
    std::copy_n(call.balance.row<const float>(0), call.probabilities.columns, gradients);
  } else {
    std::fill_n(gradients, call.probabilities.columns, 0.0F);
  }
  for (std::int64_t s = 0; !call.normalise && s < top_k; ++s) gradients[experts[s]] += given[s];
}

/// From gradients of probabilities to gradients of logits.
HWY_INLINE void through_softmax(const float* probabilities, std::int64_t count, float* gradients) {
  Float total = hn::Zero(FloatTag());
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    total = hn::MulAdd(access.load(probabilities + i), access.load(gradients + i), total);
  });
  const Float mean = broadcast(sum(total));
  for_vectors(count, [&](auto access, std::int64_t i) HWY_ATTR {
    const Float difference = hn::Sub(access.load(gradients + i), mean);
    access.store(hn::Mul(access.load(probabilities + i), difference), gradients + i);
  });
}

/// Adds what weights that are a softmax of the chosen logits give to these.
HWY_INLINE void add_chosen_gradients(const RouteBackward& call, std::int64_t token, float* gradients) {
  const std::int64_t top_k = call.weights.columns;
  const std::int32_t* experts = call.experts.data() + token * top_k;
  const float* weights = call.weights.row<const float>(token);
  const float* given = call.weights_gradient.row<const float>(token);
  float common = 0;
  for (std::int64_t s = 0; s < top_k; ++s) common += given[s] * weights[s];
  for (std::int64_t s = 0; s < top_k; ++s) gradients[experts[s]] += weights[s] * (given[s] - common);
}

template <typename T>
HWY_INLINE void route_tokens_backward(const RouteBackward& call, std::int64_t begin, std::int64_t end,
                                      float* gradients) {
  const std::int64_t count = call.probabilities.columns;
  for (std::int64_t token = begin; token < end; ++token) {
    write_probability_gradients(call, token, gradients);
    through_softmax(call.probabilities.row<const float>(token), count, gradients);
    if (call.normalise) add_chosen_gradients(call, token, gradients);
    map(gradients, call.logits_gradient.row<T>(token), count, [](Float value) HWY_ATTR { return value; });
  }
}

void route_backward(const RouteBackward& call, std::int64_t begin, std::int64_t end, float* gradients) {
  with_storage_type(call.logits_gradient.dtype,
                    [&]<typename T>(T) HWY_ATTR { route_tokens_backward<T>(call, begin, end, gradients); });
}

template <typename T>
HWY_INLINE void combine_tokens(const CombineRows& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t slots = call.x.rows / call.out.rows;
  for (std::int64_t token = begin; token < end; ++token) {
    const std::int32_t* places = call.places.data() + token * slots;
    const float* weights = call.weights ? call.weights.row<const float>(token) : nullptr;
    T* to = call.out.row<T>(token);
    for_vectors(call.out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      Float total = hn::Zero(FloatTag());
      for (std::int64_t s = 0; s < slots; ++s) {
        const Float weight = broadcast(weights == nullptr ? 1.0F : weights[s]);
        total = hn::MulAdd(weight, access.load(call.x.row<const T>(places[s]) + i), total);
      }
      access.store(total, to + i);
    });
  }
}

void combine(const CombineRows& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.x.dtype, [&]<typename T>(T) HWY_ATTR { combine_tokens<T>(call, begin, end); });
}

template <typename T>
HWY_INLINE void combine_tokens_backward(const CombineRowsBackward& call, std::int64_t begin,
                                        std::int64_t end) {
  const std::int64_t slots = call.weights.columns;
  for (std::int64_t token = begin; token < end; ++token) {
    const T* gradient = call.out_gradient.row<const T>(token);
    for (std::int64_t s = 0; s < slots; ++s) {
      const std::int32_t place = nth(call.places, token * slots + s);
      const T* x = call.x.row<const T>(place);
      T* to = call.x_gradient.row<T>(place);
      const Float weight = broadcast(call.weights.row<const float>(token)[s]);
      Float total = hn::Zero(FloatTag());
      for_vectors(call.x.columns, [&](auto access, std::int64_t i) HWY_ATTR {
        const Float of_out = access.load(gradient + i);
        total = hn::MulAdd(access.load(x + i), of_out, total);
        access.store(hn::Mul(weight, of_out), to + i);
      });
      call.weights_gradient.row<float>(token)[s] = sum(total);
    }
  }
}

void combine_backward(const CombineRowsBackward& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.x.dtype,
                    [&]<typename T>(T) HWY_ATTR { combine_tokens_backward<T>(call, begin, end); });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(route);
HWY_EXPORT(route_backward);
HWY_EXPORT(combine);
HWY_EXPORT(combine_backward);

void run_on_cpu(CpuContext& context, const RouteForward& call) {
  assert(static_cast<std::int64_t>(call.experts.size()) == call.weights.elements());
  context.pool.for_ranges(call.logits.rows, rows_per_task(call.logits.columns * call.weights.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(route)(call, begin, end);
                          });
}

ScratchBytes scratch_on_cpu(const RouteBackward& call, int /*threads*/) {
  return {.per_thread = call.probabilities.columns * size_of(DType::fp32)};
}

void run_on_cpu(CpuContext& context, const RouteBackward& call) {
  context.scratch.reserve(scratch_on_cpu(call, context.pool.threads()));
  context.pool.for_ranges(call.probabilities.rows, rows_per_task(call.probabilities.columns),
                          [&](std::int64_t begin, std::int64_t end, int slot) {
                            auto* gradients = reinterpret_cast<float*>(context.scratch.slot(slot));
                            HWY_DYNAMIC_DISPATCH(route_backward)(call, begin, end, gradients);
                          });
}

void run_on_cpu(CpuContext& /*context*/, const LoadBalance& call) {
  const auto* counts = call.counts.row<const float>(0);
  const auto* sums = call.probability_sums.row<const float>(0);
  const double factor = call.coefficient * static_cast<double>(call.counts.columns) / (call.rows * call.rows);
  const double scale = call.loss_scale == nullptr ? 1 : *call.loss_scale;
  double sum = 0;
  for (std::int64_t e = 0; e < call.counts.columns; ++e) {
    sum += static_cast<double>(counts[e]) * sums[e];
    if (call.balance) call.balance.row<float>(0)[e] = static_cast<float>(factor * scale * counts[e]);
  }
  if (call.loss) *call.loss.row<float>(0) = static_cast<float>(factor * sum);
}

/// Some thousands of numbers: not worth several threads.
void run_on_cpu(CpuContext& /*context*/, const GroupRows& call) {
  const auto& [groups, copies, sources, places, offsets] = call;
  std::fill(offsets.begin(), offsets.end(), 0);
  for (const std::int32_t group : groups) ++nth(offsets, group + 1);
  for (std::size_t g = 1; g < offsets.size(); ++g) offsets[g] += offsets[g - 1];
  // offsets[g] is where the group's next row goes, and in the end where the next group begins.
  for (std::size_t row = 0; row < groups.size(); ++row) {
    const std::int32_t place = nth(offsets, groups[row])++;
    nth(sources, place) = static_cast<std::int32_t>(static_cast<std::int64_t>(row) / copies);
    places[row] = place;
  }
  std::copy_backward(offsets.begin(), offsets.end() - 1, offsets.end());
  offsets.front() = 0;
}

void run_on_cpu(CpuContext& /*context*/, const CountRows& call) {
  auto* counts = call.counts.row<float>(0);
  for (std::size_t group = 0; group + 1 < call.offsets.size(); ++group)
    counts[group] += static_cast<float>(call.offsets[group + 1] - call.offsets[group]);
}

void run_on_cpu(CpuContext& context, const CombineRows& call) {
  assert(static_cast<std::int64_t>(call.places.size()) == call.x.rows);
  context.pool.for_ranges(call.out.rows, rows_per_task(call.out.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(combine)(call, begin, end);
                          });
}

void run_on_cpu(CpuContext& context, const CombineRowsBackward& call) {
  assert(static_cast<std::int64_t>(call.places.size()) == call.x.rows);
  context.pool.for_ranges(call.out_gradient.rows, rows_per_task(call.x.columns * call.weights.columns),
                          [&](std::int64_t begin, std::int64_t end, int) {
                            HWY_DYNAMIC_DISPATCH(combine_backward)(call, begin, end);
                          });
}

}  // namespace strata
#endif
