#include "optim/loss_scale.h"

#include <algorithm>

namespace strata {

LossScale next_loss_scale(const LossScale& scale, const LossScaleSettings& settings,
                          bool gradients_were_finite) {
  const auto times = [&](double factor) {
    return static_cast<float>(std::clamp(static_cast<double>(scale.scale) * factor, 0x1p-126, 0x1p127));
  };
  if (!gradients_were_finite) return {.scale = times(settings.backoff), .finite_steps = 0};
  if (scale.finite_steps + 1 >= settings.interval)
    return {.scale = times(settings.growth), .finite_steps = 0};
  return {.scale = scale.scale, .finite_steps = scale.finite_steps + 1};
}

}  // namespace strata
