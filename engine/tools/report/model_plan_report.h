// What the plan of one model needs and does: of a run's only model, or of one among several.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/cost/rates.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// The lines of plan_text() for a run of one model.
std::string text_of_only_model(const Plan& plan, const Model& model, const MachineRates* rates);

/// Without memory, which is the run's.
nlohmann::json model_plan_json(const ModelPlan& plan, const MachineRates* rates);

}  // namespace strata
