#include "engine/plan/search/planner.h"

#include <set>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/search/finish.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/search.h"

namespace strata {
namespace {

/// All stages' programs must meet, and all ranks must know where.
void join(std::vector<Plan>& plans) {
  std::set<Channel> channels;
  std::vector<RankProgram> training;
  OfInterludes<std::vector<RankProgram>> interludes;
  for (const Plan& plan : plans) {
    const auto add = [&](const PlannedProgram& program, std::vector<RankProgram>& programs) {
      add_channels(program.program, plan.rank, channels);
      programs.push_back({plan.rank, &program.program, &program.dependencies});
    };
    add(plan.training(), training);
    for (const auto& [interlude, program] : plan.interludes()) add(program, interludes[interlude]);
  }
  if (plans.size() > 1) {
    verify_ranks(training);
    for (const auto& [interlude, programs] : interludes) verify_ranks(programs);
  }
  for (Plan& plan : plans) plan.channels = channels;
}

/// A plan for each stage of the pipeline; nothing if some stage has none. REQUIRES: `searches` are those of
/// `request`, by stage.
std::optional<std::vector<Plan>> find_plans(const PlanRequest& request, const Model& model,
                                            std::vector<CheapestSearch>& searches) {
  std::vector<Plan> plans;
  for (CheapestSearch& search : searches) {
    Shortage shortage;
    std::optional<Placement> best = search.find_with_less(request.memory, shortage);
    if (!best) return std::nullopt;
    Plan& plan = plans.emplace_back();
    plan.rank = (std::ssize(plans) - 1) * request.strategy.mesh.tensor;
    plan.budgets = request.memory.budgets();
    plan.models.emplace_back(finish(std::move(*best), request.memory, model));
  }
  join(plans);
  return plans;
}

}  // namespace

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
  const ModelToPlan& only = models_.front();
  std::vector<CheapestSearch> searches = searches_of(only.request, *only.model, rates_);
  return find_plans(only.request, *only.model, searches);
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

std::vector<Plan> make_plans(const PlanRequest& request, const Model& model, const MachineRates& rates) {
  std::vector<CheapestSearch> searches = searches_of(request, model, rates);
  std::optional<std::vector<Plan>> plans = find_plans(request, model, searches);
  if (!plans) throw budget_error(request, model, rates, std::move(searches));
  return std::move(*plans);
}

}  // namespace strata
