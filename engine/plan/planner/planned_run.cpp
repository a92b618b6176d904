#include "engine/plan/planner/planned_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/place/step_cost.h"

namespace strata {
namespace {

/// With lanes that take turns a rank does one thing at a time.
double serial_seconds(const Program& program, const MachineRates& rates) {
  const InstructionCosts costs(program, rates);
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) seconds += costs.seconds_of(instruction);
  return seconds;
}

PlannedRun run_of(const std::vector<ModelToPlan>& models, std::vector<Plan> plans,
                  const MachineRates& rates) {
  PlannedRun run;
  for (const ModelToPlan& model : models) run.tokens += model.request.strategy.tokens();
  run.plans = std::move(plans);
  run.ranks = ranks_of(run.plans);
  run.step = estimate_step(run.plans, models.front().request.lanes, rates);
  return run;
}

}  // namespace

StepEstimate estimate_step(const std::vector<Plan>& plans, LaneMode lanes, const MachineRates& rates) {
  const std::vector<RankProgram> ranks = ranks_of(plans);
  StepEstimate step = {.timeline = simulated_seconds(ranks, rates)};
  for (const RankProgram& rank : ranks) {
    step.work = std::max(step.work, placed_cost(*rank.program, rates).seconds);
    if (lanes == LaneMode::serial)
      step.timeline = std::max(step.timeline, serial_seconds(*rank.program, rates));
  }
  for (const Plan& plan : plans) {
    const StepNeeds needs = step_needs(plan, rates);
    if (needs.longest() > step.needs.longest()) step.needs = needs;
  }
  step.seconds = std::max({step.timeline, step.work, step.needs.longest()});
  return step;
}

EnumArray<Tier, Bytes> PlannedRun::peaks() const {
  EnumArray<Tier, Bytes> peaks;
  for (const Tier tier : kTiers) {
    for (const Plan& plan : plans) peaks[tier] = std::max(peaks[tier], plan.arena_bytes(tier));
  }
  return peaks;
}

PlannedRun plan_run(const std::vector<ModelToPlan>& models, bool is_several, const MachineRates& rates) {
  return run_of(models, Planner(models, is_several, rates).plan(), rates);
}

std::optional<PlannedRun> find_run(const std::vector<ModelToPlan>& models, bool is_several,
                                   const MachineRates& rates) {
  try {
    std::optional<std::vector<Plan>> plans = Planner(models, is_several, rates).find();
    if (!plans) return std::nullopt;
    return run_of(models, std::move(*plans), rates);
  } catch (const ConfigError&) {  // the models' meshes do not go together
    return std::nullopt;
  }
}

}  // namespace strata
