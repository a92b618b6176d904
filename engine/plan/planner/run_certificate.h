// The lower bound on a step of a whole run.
#pragma once

#include <vector>

#include "engine/plan/bound/certificate.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/merge/model_to_plan.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// For the plans of a run. If there are several ranks or models it counts each rank's passes only.
Certificate certify(const std::vector<Plan>& plans, const std::vector<ModelToPlan>& models,
                    const MachineRates& rates);

}  // namespace strata
