#include "engine/plan/step_flops.h"

namespace strata {

StepFlops step_flops(const Model& model, const Strategy& strategy) {
  const UnitCompute compute(model, strategy.precision, strategy.microbatch);
  StepFlops flops;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    // The head's forward happens inside its backward.
    const double forward = unit.kind == UnitKind::head ? 0 : compute.forward_flops(unit);
    flops.executed += forward + compute.backward_flops(unit, strategy.save[u]);
  }
  const auto microbatches = static_cast<double>(strategy.microbatches);
  flops.executed *= microbatches;
  flops.model = 3 * forward_flops_per_token(model, strategy.microbatch.sequence) *
                static_cast<double>(strategy.microbatch.tokens()) * microbatches;
  return flops;
}

}  // namespace strata
