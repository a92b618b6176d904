// Updates of parameters on the CPU, by the formulas of update_rule.h. One pass over memory unscales, clips,
// updates and casts to the compute dtype. With 16-bit gradients and parameters AdamW moves 18 to 28 bytes per
// parameter, by the state's format. Runs on the TBB arena it is called in. The result of an element depends
// only on that element, so any split over threads gives the same bits.
#pragma once

#include <cstdint>

#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"
#include "optim/update_policy.h"

namespace strata {

/// One step of what a policy updates.
struct UpdateStep {
  UpdatePolicy policy = {};
  double learning_rate = 0;  ///< the schedule's
  float gradient_scale = 1;  ///< unscale × clip: what the stored gradient is multiplied by
  std::int64_t step = 1;     ///< applied updates, from 1 (bias correction)
  std::uint64_t seed = 0;    ///< of stochastic rounding
};

UpdateCoefficients coefficients(const UpdateStep& step);

/// Updates by state.rule, whose coefficients `step` holds and whose moments the state has. Parameters move by
/// fp32 moments; they are rounded when they are stored. Then averages the masters by `averaged`, if the state
/// has their average.
void update(const UpdateCoefficients& step, const OptimizerState& state,
            const AverageCoefficients& averaged = {});

/// What a skipped step does instead: a parameter that is a rounded copy of its master may be nothing but what
/// its update writes, so it is written all the same. The state keeps its bits.
void round_masters(const OptimizerState& state);

/// update() in plain scalar code: the oracle.
void update_reference(const UpdateCoefficients& step, const OptimizerState& state,
                      const AverageCoefficients& averaged = {});

}  // namespace strata
