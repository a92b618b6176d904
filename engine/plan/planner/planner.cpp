#include "engine/plan/planner/planner.h"

#include <utility>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/plan/place/stage_plans.h"

namespace strata {
Planner::Planner(std::vector<ModelToPlan> models, bool is_several, const MachineRates& rates)
    : models_(std::move(models)), rates_(rates) {
  if (is_several) joint_.emplace(models_, rates_);
}

std::vector<Plan> Planner::plan(const std::vector<std::int64_t>& remaining_steps, const std::string& order) {
  if (joint_) return joint_->plan(remaining_steps, order);
  return make_plans(models_.front().request, *models_.front().model, rates_);
}

std::optional<std::vector<Plan>> Planner::find(const std::vector<std::int64_t>& remaining_steps,
                                               const std::string& order) {
  if (joint_) return joint_->find(remaining_steps, order);
  return find_plans(models_.front().request, *models_.front().model, rates_);
}

std::vector<std::int64_t> Planner::all_steps() const {
  std::vector<std::int64_t> steps;
  for (const ModelToPlan& model : models_) steps.push_back(model.steps);
  return steps;
}

std::vector<Plan> Planner::plan() {
  return plan(all_steps());
}

std::optional<std::vector<Plan>> Planner::find() {
  return find(all_steps());
}

const Plan& Planner::of_rank(const std::vector<Plan>& plans, std::int64_t rank) const {
  if (joint_) return plans[joint_->stage_set_of(rank)];
  return nth(plans, models_.front().request.strategy.mesh.stage(rank));
}

}  // namespace strata
