// Plans of run files: what the planner is asked is made from the run file each time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/plan/place/search.h"
#include "engine/plan/place/stage_plans.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {

struct RunConfig;

inline Strategy make_strategy(const RunConfig& config, const Model& model, std::int32_t stage = 0) {
  return plan_request(config, model).strategy_of(stage);
}

inline std::vector<Plan> make_plans(const RunConfig& config, const Model& model, const MachineRates& rates) {
  return make_plans(plan_request(config, model), model, rates);
}

/// The model's, of the first stage.
inline ModelPlan make_plan(const RunConfig& config, const Model& model, const MachineRates& rates) {
  return std::move(*make_plans(config, model, rates).front().models.front());
}

/// By the rates of this machine.
inline ModelPlan make_plan(const RunConfig& config, const Model& model) {
  return make_plan(config, model, planning_rates(config));
}

inline Bytes smallest_device_bytes(const RunConfig& config, const Model& model) {
  return smallest_device_bytes(plan_request(config, model), model);
}

}  // namespace strata
