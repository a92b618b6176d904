// The plans of a run of one model: one for each stage of its pipeline, whose programs meet.
#pragma once

#include <optional>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/place/plan.h"
#include "engine/plan/place/plan_request.h"

namespace strata {

struct Model;

/// Nothing if the budgets cannot hold some stage.
std::optional<std::vector<Plan>> find_plans(const PlanRequest& request, const Model& model,
                                            const MachineRates& rates);

/// Throws BudgetError if the budgets cannot hold some stage, naming what does not fit and the smallest budget
/// that would.
std::vector<Plan> make_plans(const PlanRequest& request, const Model& model, const MachineRates& rates);

}  // namespace strata
