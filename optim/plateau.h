// A learning rate that falls when the held-out loss improves no more, by the rule of torch.optim's
// ReduceLROnPlateau with its relative threshold.
#pragma once

#include <cstdint>
#include <limits>

namespace strata {

struct PlateauSettings {
  double factor = 0.5;         ///< on the rate, each time it falls
  std::int64_t patience = 10;  ///< validations in a row without an improvement that change nothing
  double threshold = 1e-4;     ///< an improvement is below (1 - threshold) · the best loss
  std::int64_t cooldown = 0;   ///< validations behind a fall that `patience` does not count
};

/// What validations have shown so far.
struct Plateau {
  std::int64_t step = 0;  ///< of the latest that counted; 0: none yet
  double best = std::numeric_limits<double>::infinity();
  std::int64_t waited = 0;    ///< validations in a row without an improvement
  std::int64_t cooldown = 0;  ///< those of PlateauSettings::cooldown that are left
  std::int64_t falls = 0;     ///< of the rate
  friend bool operator==(const Plateau&, const Plateau&) = default;
};

/// Behind a validation at `step`. A step that counted before changes nothing, since a resumed run validates
/// its first step once more. A loss that is not finite is no improvement.
Plateau next_plateau(const PlateauSettings& settings, const Plateau& before, std::int64_t step, double loss);

/// What the peak is multiplied by.
double plateau_factor(const PlateauSettings& settings, const Plateau& plateau);

}  // namespace strata
