#include "optim/adamw.h"

#include <cassert>
#include <cmath>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include "optim/adamw_kernel.h"

namespace strata {
namespace {

/// Elements of one task: 1.75 MiB of traffic, long enough to hide the scheduler, short enough to balance
/// threads.
constexpr std::int64_t kChunk = 64 * 1024;

/// From here on a step's state does not fit the private caches, and writing the parameter past them wins.
constexpr std::int64_t kStreamFrom = 256 * 1024;

AdamWPointers pointers(const AdamWState& state, std::int64_t first) {
  const auto* gradient =
      static_cast<const std::byte*>(state.gradient) + first * size_of(state.gradient_dtype);
  return {.master = state.master.data() + first,
          .exp_avg = state.exp_avg.data() + first,
          .exp_avg_sq = state.exp_avg_sq.data() + first,
          .gradient = gradient,
          .gradient_dtype = state.gradient_dtype,
          .parameter = state.parameter == nullptr ? nullptr : state.parameter + first};
}

float gradient_at(const AdamWState& state, std::size_t index) {
  if (state.gradient_dtype == DType::fp32) return static_cast<const float*>(state.gradient)[index];
  return static_cast<float>(static_cast<const bfloat16*>(state.gradient)[index]);
}

}  // namespace

AdamWCoefficients coefficients(const AdamWStep& step) {
  const double beta1 = step.beta1, beta2 = step.beta2, learning_rate = step.learning_rate;
  const auto count = static_cast<double>(step.step);
  return {.gradient_scale = step.gradient_scale,
          .keep = static_cast<float>(1 - learning_rate * step.weight_decay),
          .beta1 = step.beta1,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = step.beta2,
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .inverse_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count))),
          .epsilon = step.epsilon,
          .step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count)))};
}

void adamw(const AdamWStep& step, const AdamWState& state) {
  assert(state.exp_avg.size() == state.master.size() && state.exp_avg_sq.size() == state.master.size());
  assert(step.step >= 1);
  const AdamWCoefficients scalars = coefficients(step);
  const auto elements = static_cast<std::int64_t>(state.master.size());
  const bool stream = elements >= kStreamFrom;
  oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<std::int64_t>(0, (elements + kChunk - 1) / kChunk, 1),
                            [&](const oneapi::tbb::blocked_range<std::int64_t>& chunks) {
                              const std::int64_t first = chunks.begin() * kChunk;
                              const std::int64_t last = std::min(chunks.end() * kChunk, elements);
                              adamw_kernel(scalars, pointers(state, first), last - first, stream);
                            });
}

void adamw_reference(const AdamWStep& step, const AdamWState& state) {
  const AdamWCoefficients s = coefficients(step);
  for (std::size_t i = 0; i < state.master.size(); ++i) {
    const float gradient = gradient_at(state, i) * s.gradient_scale;
    const float exp_avg = s.beta1 * state.exp_avg[i] + s.one_minus_beta1 * gradient;
    const float exp_avg_sq = s.beta2 * state.exp_avg_sq[i] + s.one_minus_beta2 * (gradient * gradient);
    const float denominator = std::sqrt(exp_avg_sq) * s.inverse_correction2 + s.epsilon;
    const float master = s.keep * state.master[i] - s.step_size * (exp_avg / denominator);
    state.exp_avg[i] = exp_avg;
    state.exp_avg_sq[i] = exp_avg_sq;
    state.master[i] = master;
    if (state.parameter != nullptr) state.parameter[i] = bfloat16(master);
  }
}

}  // namespace strata
