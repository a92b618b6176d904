// AdamW (Loshchilov & Hutter 2019; torch.optim.AdamW's formulas) on the CPU: unscale, clip, update and cast
// to the compute dtype in one pass over memory, 28 bytes per parameter with a 16-bit gradient and a 16-bit
// parameter, 18 to 28 by the state's format. Runs on the TBB arena it is called in; the result of an element
// depends only on that element, so any split over threads gives the same bits.
#pragma once

#include <cstdint>

#include "optim/adamw_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// One step's scalars. `step` counts applied updates from 1 (bias correction).
struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float gradient_scale = 1;  ///< unscale × clip: what the stored gradient is multiplied by
  std::int64_t step = 1;
  std::uint64_t seed = 0;  ///< of stochastic rounding
};

AdamWCoefficients coefficients(const AdamWStep& step);

/// theta -= lr·wd·theta; m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; theta -= lr/(1-b1^t) · m /
/// (sqrt(v/(1-b2^t)) + eps). Theta moves by the fp32 m and v; they are rounded when they are stored.
void adamw(const AdamWCoefficients& step, const AdamWState& state);

/// What a skipped step does instead: a parameter that is a rounded copy of its master may be nothing but what
/// its update writes, so it is written all the same. The state keeps its bits.
void round_masters(const AdamWState& state);

/// adamw() in plain scalar code: the oracle.
void adamw_reference(const AdamWCoefficients& step, const AdamWState& state);

}  // namespace strata
