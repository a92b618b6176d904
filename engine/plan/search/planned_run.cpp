#include "engine/plan/search/planned_run.h"

#include <algorithm>

#include "engine/plan/search/step_cost.h"
#include "engine/plan/search/timeline.h"

namespace strata {
namespace {

/// With lanes that take turns a rank does one thing at a time.
double serial_seconds(const Program& program, const MachineRates& rates) {
  double seconds = 0;
  for (const Instruction& instruction : program.instructions)
    seconds += seconds_of(program, instruction, rates);
  return seconds;
}

StepEstimate estimate(const PlannedRun& run, LaneMode lanes, const MachineRates& rates) {
  StepEstimate step = {.timeline = simulated_seconds(run.ranks, rates)};
  for (const RankProgram& rank : run.ranks) {
    step.work = std::max(step.work, placed_cost(*rank.program, rates).seconds);
    if (lanes == LaneMode::serial)
      step.timeline = std::max(step.timeline, serial_seconds(*rank.program, rates));
  }
  const auto consider = [&](const StepBound& bound) {
    if (bound.seconds() > step.bound.seconds()) step.bound = bound;
  };
  for (const Plan& plan : run.stages) consider(step_bound(plan, rates));
  for (const JointPlan& plan : run.roles) consider(round_bound(plan, rates));
  step.seconds = std::max({step.timeline, step.work, step.bound.seconds()});
  return step;
}

}  // namespace

std::array<Bytes, kTiers.size()> PlannedRun::peaks() const {
  std::array<Bytes, kTiers.size()> peaks = {};
  for (const Tier tier : kTiers) {
    Bytes& peak = peaks[static_cast<std::size_t>(tier)];
    for (const Plan& plan : stages) peak = std::max(peak, plan.arena_bytes(tier));
    for (const JointPlan& plan : roles) peak = std::max(peak, plan.arena_bytes(tier));
  }
  return peaks;
}

PlannedRun plan_run(const std::vector<JointModel>& models, bool is_several, const MachineRates& rates) {
  PlannedRun run;
  std::vector<std::int64_t> steps;
  for (const JointModel& model : models) {
    run.tokens += model.config->train.batch * model.config->data.sequence_length;
    steps.push_back(model.config->train.steps);
  }
  const JointModel& first = models.front();
  if (is_several) {
    JointPlanner planner(models, rates);
    run.roles = planner.plan(steps);
    run.ranks = planner.ranks_of(run.roles);
  } else {
    run.stages = make_plans(*first.config, *first.model, rates);
    run.ranks = ranks_of(run.stages);
  }
  run.step = estimate(run, first.config->plan.lanes, rates);
  return run;
}

}  // namespace strata
