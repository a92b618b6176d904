#include "engine/plan/place/stage_plans.h"

#include <set>
#include <utility>

#include "engine/plan/place/finish.h"
#include "engine/plan/place/refusal.h"
#include "engine/plan/place/search.h"
#include "engine/plan/program/rank_tasks.h"

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

/// Nothing if some stage has no plan. REQUIRES: `searches` are those of `request`, by stage.
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

std::optional<std::vector<Plan>> find_plans(const PlanRequest& request, const Model& model,
                                            const MachineRates& rates) {
  std::vector<CheapestSearch> searches = searches_of(request, model, rates);
  return find_plans(request, model, searches);
}

std::vector<Plan> make_plans(const PlanRequest& request, const Model& model, const MachineRates& rates) {
  std::vector<CheapestSearch> searches = searches_of(request, model, rates);
  std::optional<std::vector<Plan>> plans = find_plans(request, model, searches);
  if (!plans) throw budget_error(request, model, rates, std::move(searches));
  return std::move(*plans);
}

}  // namespace strata
