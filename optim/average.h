// Exponential moving averages of parameters: Moment::ema. An average begins as a copy of what the first
// update gives, as AveragedModel of torch.optim.swa_utils does, and needs no correction then. Every further
// average is ema += (1 - decay) · (theta - ema), as its ema_update has it.
#pragma once

#include <cstdint>

#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"

namespace strata {

struct AverageSettings {
  double decay = 0;        ///< 0: nothing is averaged
  std::int64_t every = 1;  ///< updates from one average to the next; the first update has one
  friend bool operator==(const AverageSettings&, const AverageSettings&) = default;
};

/// Gives those of update `update`, counted from 1. `seed`: of stochastic rounding.
AverageCoefficients average_coefficients(const AverageSettings& settings, std::int64_t update,
                                         std::uint64_t seed);

/// Averages the masters, behind their update. Elements depend on nothing else, as in optim/update.h. It is
/// plain code that compilers vectorize. With averages in fp32 an update keeps 0.96 of its rate of bytes, but
/// with bf16 half of it, for the random bits (two threads of a Zen 3).
void average(const AverageCoefficients& step, const OptimizerState& state);

}  // namespace strata
