// Dynamic loss scaling (Micikevicius et al. 2018), by the rule of torch.amp.GradScaler. fp16 gradients below
// 2^-24 are lost. So the loss is multiplied by a scale that is as large as gradients allow, and the optimizer
// divides by it again.
#pragma once

#include <cstdint>

namespace strata {

struct LossScaleSettings {
  double initial = 65536;
  double growth = 2;     ///< factor after `interval` steps in a row whose gradients were finite
  double backoff = 0.5;  ///< factor after a step whose gradients were not
  std::int64_t interval = 2000;
  friend bool operator==(const LossScaleSettings&, const LossScaleSettings&) = default;
};

/// What a step's backward pass multiplies the loss by. A device reads it from its memory.
struct LossScale {
  float scale = 1;
  std::int32_t finite_steps = 0;  ///< in a row, since the scale last changed
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

/// The scale for the next step. It stays a normal number: it neither grows past 2^127 nor falls below 2^-126.
LossScale next_loss_scale(const LossScale& scale, const LossScaleSettings& settings,
                          bool gradients_were_finite);

}  // namespace strata
