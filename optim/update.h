// Updates of parameters on the CPU, by AdamW (Loshchilov & Hutter 2019) and SGD with torch.optim's formulas.
// One pass over memory unscales, clips, updates and casts to the compute dtype. With 16-bit gradients and
// parameters AdamW moves 18 to 28 bytes per parameter, by the state's format. Runs on the TBB arena it is
// called in. The result of an element depends only on that element, so any split over threads gives the same
// bits.
#pragma once

#include <cstdint>

#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// One step's scalars, those of all rules. `step` counts applied updates from 1 (bias correction).
struct UpdateStep {
  UpdateRule rule = UpdateRule::adamw;
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float momentum = 0;
  float weight_decay = 0;
  float gradient_scale = 1;  ///< unscale × clip: what the stored gradient is multiplied by
  std::int64_t step = 1;
  std::uint64_t seed = 0;  ///< of stochastic rounding
};

UpdateCoefficients coefficients(const UpdateStep& step);

/// Updates by state.rule, whose coefficients `step` holds and whose moments the state has.
///   adamw:        theta -= lr·wd·theta; m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
///                 theta -= lr/(1-b1^t) · m / (sqrt(v/(1-b2^t)) + eps)
///   sgd:          theta -= lr · (g + wd·theta)
///   sgd_momentum: b = momentum·b + (g + wd·theta); theta -= lr·b. Buffers begin as zeros, so the first
///                 step's b is what is added, as in PyTorch.
/// Theta moves by fp32 moments; they are rounded when they are stored.
void update(const UpdateCoefficients& step, const OptimizerState& state);

/// What a skipped step does instead: a parameter that is a rounded copy of its master may be nothing but what
/// its update writes, so it is written all the same. The state keeps its bits.
void round_masters(const OptimizerState& state);

/// update() in plain scalar code: the oracle.
void update_reference(const UpdateCoefficients& step, const OptimizerState& state);

}  // namespace strata
