#include "optim/adamw.h"

#include <cassert>
#include <cmath>

#include "engine/base/storage_type.h"
#include "engine/base/task_arena.h"
#include "optim/adamw_kernel.h"

namespace strata {
namespace {

/// Elements of one task: 1.75 MiB of traffic, long enough to hide the scheduler, short enough to balance
/// threads.
constexpr std::int64_t kChunk = 64 * 1024;

/// From here on a step's state does not fit the private caches, and writing the parameter past them wins.
constexpr std::int64_t kStreamFrom = 256 * 1024;

float gradient_at(const AdamWState& state, std::size_t index) {
  return with_storage_type(state.gradient_dtype, [&]<typename T>(T) {
    return static_cast<float>(static_cast<const T*>(state.gradient)[index]);
  });
}

void set_parameter(const AdamWState& state, std::size_t index, float value) {
  with_storage_type(state.parameter_dtype,
                    [&]<typename T>(T) { static_cast<T*>(state.parameter)[index] = T(value); });
}

}  // namespace

AdamWCoefficients coefficients(const AdamWStep& step) {
  assert(step.step >= 1);
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

void adamw(const AdamWCoefficients& step, const AdamWState& state) {
  assert(state.exp_avg.size() == state.master.size() && state.exp_avg_sq.size() == state.master.size());
  assert(state.parameter == nullptr || state.parameter_dtype != DType::fp32);
  const auto elements = static_cast<std::int64_t>(state.master.size());
  const bool stream = elements >= kStreamFrom;
  const AdamWPointers all = {.master = state.master.data(),
                             .exp_avg = state.exp_avg.data(),
                             .exp_avg_sq = state.exp_avg_sq.data(),
                             .gradient = state.gradient,
                             .gradient_dtype = state.gradient_dtype,
                             .parameter = state.parameter,
                             .parameter_dtype = state.parameter_dtype};
  for_ranges((elements + kChunk - 1) / kChunk, 1,
             [&](std::int64_t first_chunk, std::int64_t last_chunk, int) {
               const std::int64_t first = first_chunk * kChunk;
               const std::int64_t last = std::min(last_chunk * kChunk, elements);
               adamw_kernel(step, advanced(all, first), last - first, stream);
             });
}

void adamw_reference(const AdamWCoefficients& s, const AdamWState& state) {
  for (std::size_t i = 0; i < state.master.size(); ++i) {
    const float gradient = gradient_at(state, i) * s.gradient_scale;
    const float exp_avg = s.beta1 * state.exp_avg[i] + s.one_minus_beta1 * gradient;
    const float exp_avg_sq = s.beta2 * state.exp_avg_sq[i] + s.one_minus_beta2 * (gradient * gradient);
    const float denominator = std::sqrt(exp_avg_sq) * s.inverse_correction2 + s.epsilon;
    const float master = s.keep * state.master[i] - s.step_size * (exp_avg / denominator);
    state.exp_avg[i] = exp_avg;
    state.exp_avg_sq[i] = exp_avg_sq;
    state.master[i] = master;
    if (state.parameter != nullptr) set_parameter(state, i, master);
  }
}

}  // namespace strata
