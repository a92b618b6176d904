#include "optim/plateau.h"

#include <algorithm>
#include <cmath>

namespace strata {

Plateau next_plateau(const PlateauSettings& settings, const Plateau& before, std::int64_t step, double loss) {
  if (step <= before.step) return before;
  Plateau after = before;
  after.step = step;
  const bool is_better = std::isfinite(loss) && loss < before.best * (1 - settings.threshold);
  if (is_better) after.best = loss;
  const bool cools_down = before.cooldown > 0;
  if (cools_down) --after.cooldown;
  after.waited = is_better || cools_down ? 0 : before.waited + 1;
  if (after.waited > settings.patience) {
    ++after.falls;
    after.waited = 0;
    after.cooldown = settings.cooldown;
  }
  return after;
}

double plateau_factor(const PlateauSettings& settings, const Plateau& plateau) {
  return std::pow(settings.factor, static_cast<double>(plateau.falls));
}

}  // namespace strata
