#include "engine/plan/search/planner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/search/finish.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/search.h"
#include "engine/plan/search/size_limit.h"

namespace strata {
namespace {

/// All stages' programs must meet, and all ranks must know where.
void join(std::vector<Plan>& plans) {
  std::set<Channel> channels;
  std::vector<RankProgram> training, validation;
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    const Plan& plan = plans[stage];
    const auto rank = static_cast<std::int64_t>(stage) * plan.strategy.mesh.tensor;
    const auto add = [&](const PlannedProgram& program, std::vector<RankProgram>& programs) {
      add_channels(program.program, rank, channels);
      programs.push_back({rank, &program.program, &program.dependencies});
    };
    add(plan.training, training);
    if (plan.validation) add(*plan.validation, validation);
  }
  if (plans.size() > 1) {
    verify_ranks(training);
    verify_ranks(validation);
  }
  for (Plan& plan : plans) plan.channels = channels;
}

}  // namespace

Bytes Plan::arena_bytes(Tier tier) const {
  const auto peak = [&](const PlannedProgram& program) { return program.of(tier).peak_bytes; };
  return validation ? std::max(peak(training), peak(*validation)) : peak(training);
}

Plan make_plan(const RunConfig& config, const Model& model) {
  return make_plan(config, model, planning_rates(config));
}

std::vector<Plan> make_plans(const RunConfig& config, const Model& model, const MachineRates& rates) {
  check_size(config, model);
  std::vector<CheapestSearch> searches = searches_of(config, model, rates);
  std::vector<Plan> plans;
  for (CheapestSearch& search : searches) {
    Shortage shortage;
    std::optional<Placement> best = search.find(config, shortage);
    if (!best) throw budget_error(config, model, rates, std::move(searches));
    plans.push_back(finish(std::move(*best), config, model));
  }
  join(plans);
  return plans;
}

std::vector<RankProgram> ranks_of(const std::vector<Plan>& plans) {
  std::vector<RankProgram> ranks;
  ranks.reserve(plans.size());
  for (const Plan& plan : plans) {
    const std::int64_t first = plan.strategy.pipeline.stage * plan.strategy.mesh.tensor;
    ranks.push_back({first, &plan.training.program, &plan.training.dependencies});
  }
  return ranks;
}

Plan make_plan(const RunConfig& config, const Model& model, const MachineRates& rates) {
  return std::move(make_plans(config, model, rates).front());
}

}  // namespace strata
