#include "optim/adamw.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>
#include <type_traits>

#include "base/random.h"
#include "base/storage_type.h"
#include "base/task_arena.h"
#include "optim/adamw_kernel.h"
#include "optim/stochastic_rounding.h"

namespace strata {
namespace {

/// Elements of one task: 1.75 MiB of traffic, long enough to hide the scheduler, short enough to balance
/// threads.
constexpr std::int64_t kChunk = 64 * 1024;

/// From here on a step's state does not fit the private caches, and writing the parameter past them wins.
constexpr std::int64_t kStreamFrom = 256 * 1024;

/// Separates stochastic rounding from other users of the seed.
constexpr std::uint64_t kRoundingStream = 0x6d6f6d656e7473;

template <typename Moment>
Moment stored_moment(float value, std::uint32_t random) {
  if constexpr (std::is_same_v<Moment, float>) {
    return value;
  } else {
    return round_stochastically(value, random);
  }
}

template <typename Precision, typename Master, typename Moment>
void update_plainly(const AdamWCoefficients& s, const AdamWState& state) {
  auto* masters = static_cast<Master*>(state.master);
  auto* parameters = static_cast<Precision*>(state.parameter);
  const auto* gradients = static_cast<const Precision*>(state.gradient);
  auto* averages = static_cast<Moment*>(state.exp_avg);
  auto* squares = static_cast<Moment*>(state.exp_avg_sq);
  const std::uint32_t key = rounding_key(s.rounding, state.unit);
  for (std::int64_t i = 0; i < state.elements; ++i) {
    const float gradient = static_cast<float>(gradients[i]) * s.gradient_scale;
    const float exp_avg = s.beta1 * static_cast<float>(averages[i]) + s.one_minus_beta1 * gradient;
    const float exp_avg_sq =
        s.beta2 * static_cast<float>(squares[i]) + s.one_minus_beta2 * (gradient * gradient);
    const float denominator = std::sqrt(exp_avg_sq) * s.inverse_correction2 + s.epsilon;
    const auto move = [&](float master) { return s.keep * master - s.step_size * (exp_avg / denominator); };
    if constexpr (std::is_same_v<Master, Remainder>) {
      const SplitMaster halves = split_master(move(join_master(parameters[i], masters[i])));
      parameters[i] = halves.parameter;
      masters[i] = halves.remainder;
    } else {
      masters[i] = move(masters[i]);
      if constexpr (!std::is_same_v<Precision, float>) parameters[i] = Precision(masters[i]);
    }
    const std::uint32_t random = mix_bits(key + static_cast<std::uint32_t>(state.first + i));
    averages[i] = stored_moment<Moment>(exp_avg, random & 0xffffU);
    squares[i] = stored_moment<Moment>(exp_avg_sq, random >> 16);
  }
}

}  // namespace

AdamWCoefficients coefficients(const AdamWStep& step) {
  assert(step.step >= 1);
  const double beta1 = step.beta1, beta2 = step.beta2, learning_rate = step.learning_rate;
  const auto count = static_cast<double>(step.step);
  const CounterRandom random(step.seed, kRoundingStream);
  return {.gradient_scale = step.gradient_scale,
          .keep = static_cast<float>(1 - learning_rate * step.weight_decay),
          .beta1 = step.beta1,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = step.beta2,
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .inverse_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, count))),
          .epsilon = step.epsilon,
          .step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count))),
          .rounding = random.words(static_cast<std::uint64_t>(step.step))[0]};
}

void adamw(const AdamWCoefficients& step, const AdamWState& state) {
  assert(!state.format.split_master || state.precision == DType::bf16);
  const bool stream = state.elements >= kStreamFrom;
  for_ranges((state.elements + kChunk - 1) / kChunk, 1,
             [&](std::int64_t first_chunk, std::int64_t last_chunk, int) {
               const std::int64_t first = first_chunk * kChunk;
               const std::int64_t last = std::min(last_chunk * kChunk, state.elements);
               adamw_kernel(step, state.part(first, last - first), stream);
             });
}

void round_masters(const AdamWState& state) {
  if (state.precision == DType::fp32 || state.format.split_master) return;
  const std::span masters(static_cast<const float*>(state.master), static_cast<std::size_t>(state.elements));
  with_storage_type(state.precision, [&]<typename T>(T) {
    std::ranges::transform(masters, static_cast<T*>(state.parameter), [](float master) { return T(master); });
  });
}

void adamw_reference(const AdamWCoefficients& step, const AdamWState& state) {
  with_state_types(state.precision, state.format,
                   [&]<typename Precision, typename Master, typename Moment>(Precision, Master, Moment) {
                     update_plainly<Precision, Master, Moment>(step, state);
                   });
}

}  // namespace strata
