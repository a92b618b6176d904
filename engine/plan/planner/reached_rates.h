// The rates of a machine behind a run on it: what was measured before the run, raised to what the run did.
// So no step takes less than its bound, and none uses more of the machine than there is. Pure functions; any
// thread.
#pragma once

#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/merge/model_to_plan.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// `rates` of a machine that did a step of these plans in `seconds`. A resource that the plans need longer by
/// itself is as fast as `seconds` say. If the bound is above `seconds` even so, all rates but those between
/// ranks rise alike, since any of them may be what was beaten. Rates as they are if `seconds` is 0, of a run
/// without a step.
MachineRates reached_rates(MachineRates rates, const std::vector<Plan>& plans,
                           const std::vector<ModelToPlan>& models, double seconds);

}  // namespace strata
