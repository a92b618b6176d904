#include "engine/plan/search/planned_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/plan/search/find_plans.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/step_cost.h"
#include "engine/plan/search/timeline.h"

namespace strata {
namespace {

/// With lanes that take turns a rank does one thing at a time.
double serial_seconds(const Program& program, const MachineRates& rates) {
  const InstructionCosts costs(program, rates);
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) seconds += costs.seconds_of(instruction);
  return seconds;
}

PlannedRun run_of(const ModelToPlan& model, std::vector<Plan> stages, const MachineRates& rates) {
  PlannedRun run;
  run.tokens = model.request.strategy.tokens();
  run.stages = std::move(stages);
  run.ranks = ranks_of(run.stages);
  run.step = estimate_step(run.ranks, run.stages, {}, model.request.lanes, rates);
  return run;
}

PlannedRun plan_several(const std::vector<ModelToPlan>& models, const MachineRates& rates) {
  PlannedRun run;
  std::vector<std::int64_t> steps;
  for (const ModelToPlan& model : models) {
    run.tokens += model.request.strategy.tokens();
    steps.push_back(model.steps);
  }
  JointPlanner planner(models, rates);
  run.joint_plans = planner.plan(steps);
  run.ranks = planner.ranks_of(run.joint_plans);
  run.step = estimate_step(run.ranks, {}, run.joint_plans, models.front().request.lanes, rates);
  return run;
}

}  // namespace

StepEstimate estimate_step(const std::vector<RankProgram>& ranks, const std::vector<Plan>& stages,
                           const std::vector<JointPlan>& joint, LaneMode lanes, const MachineRates& rates) {
  StepEstimate step = {.timeline = simulated_seconds(ranks, rates)};
  for (const RankProgram& rank : ranks) {
    step.work = std::max(step.work, placed_cost(*rank.program, rates).seconds);
    if (lanes == LaneMode::serial)
      step.timeline = std::max(step.timeline, serial_seconds(*rank.program, rates));
  }
  const auto consider = [&](const StepNeeds& needs) {
    if (needs.longest() > step.needs.longest()) step.needs = needs;
  };
  for (const Plan& plan : stages) consider(step_needs(plan, rates));
  for (const JointPlan& plan : joint) consider(round_needs(plan, rates));
  step.seconds = std::max({step.timeline, step.work, step.needs.longest()});
  return step;
}

EnumArray<Tier, Bytes> PlannedRun::peaks() const {
  EnumArray<Tier, Bytes> peaks;
  for (const Tier tier : kTiers) {
    Bytes& peak = peaks[tier];
    for (const Plan& plan : stages) peak = std::max(peak, plan.arena_bytes(tier));
    for (const JointPlan& plan : joint_plans) peak = std::max(peak, plan.arena_bytes(tier));
  }
  return peaks;
}

PlannedRun plan_run(const std::vector<ModelToPlan>& models, bool is_several, const MachineRates& rates) {
  if (is_several) return plan_several(models, rates);
  return run_of(models.front(), make_plans(models.front().request, *models.front().model, rates), rates);
}

std::optional<PlannedRun> find_run(const std::vector<ModelToPlan>& models, bool is_several,
                                   const MachineRates& rates) {
  try {
    if (is_several) return plan_several(models, rates);
    const ModelToPlan& model = models.front();
    std::vector<CheapestSearch> searches = searches_of(model.request, *model.model, rates);
    std::optional<std::vector<Plan>> plans = find_plans(model.request, *model.model, searches);
    if (!plans) return std::nullopt;
    return run_of(model, std::move(*plans), rates);
  } catch (const ConfigError&) {  // several models do not fit, or choices do not go together
    return std::nullopt;
  }
}

}  // namespace strata
