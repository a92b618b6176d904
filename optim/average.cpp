#include "optim/average.h"

#include <cassert>
#include <type_traits>

#include "base/random.h"
#include "optim/split_master.h"
#include "optim/stochastic_rounding.h"

namespace strata {
namespace {

/// Separates the rounding of averages from other users of the seed.
constexpr std::uint64_t kAveragingStream = 0x6176657261676573;

/// `master_of(i)`: the master of element i.
template <typename Stored, typename MasterOf>
void average_with(const AverageCoefficients& s, const OptimizerState& state, const MasterOf& master_of) {
  auto* averages = static_cast<Stored*>(state.of(Moment::ema));
  const std::uint32_t key = rounding_key(s.rounding, state.unit) + static_cast<std::uint32_t>(state.first);
  for (std::int64_t i = 0; i < state.elements; ++i) {
    const auto before = static_cast<float>(averages[i]);
    const float after = before + s.weight * (master_of(i) - before);
    if constexpr (std::is_same_v<Stored, float>) {
      averages[i] = after;
    } else {
      averages[i] = round_stochastically(after, mix_bits(key + static_cast<std::uint32_t>(i)) & 0xffffU);
    }
  }
}

template <typename Stored>
void average_as(const AverageCoefficients& s, const OptimizerState& state) {
  if (state.format.master == MasterFormat::split) {
    const auto* parameters = static_cast<const bfloat16*>(state.parameter);
    const auto* remainders = static_cast<const Remainder*>(state.master);
    average_with<Stored>(s, state, [=](std::int64_t i) { return join_master(parameters[i], remainders[i]); });
  } else if (state.format.master == MasterFormat::none) {
    const auto* masters = static_cast<const bfloat16*>(state.master);
    average_with<Stored>(s, state, [=](std::int64_t i) { return static_cast<float>(masters[i]); });
  } else {
    const auto* masters = static_cast<const float*>(state.master);
    average_with<Stored>(s, state, [=](std::int64_t i) { return masters[i]; });
  }
}

}  // namespace

AverageCoefficients average_coefficients(const AverageSettings& settings, std::int64_t update,
                                         std::uint64_t seed) {
  assert(update >= 1);
  if (settings.decay == 0 || (update - 1) % settings.every != 0) return {};
  const CounterRandom random(seed, kAveragingStream);
  return {.weight = update == 1 ? 1 : static_cast<float>(1 - settings.decay),
          .rounding = random.words(static_cast<std::uint64_t>(update))[0]};
}

void average(const AverageCoefficients& step, const OptimizerState& state) {
  if (step.weight == 0 || state.of(Moment::ema) == nullptr) return;
  if (state.format.average == MomentFormat::bf16) {
    average_as<bfloat16>(step, state);
  } else {
    average_as<float>(step, state);
  }
}

}  // namespace strata
