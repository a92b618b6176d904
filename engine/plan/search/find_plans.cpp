#include "engine/plan/search/find_plans.h"

#include <set>
#include <utility>

#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/search/finish.h"

namespace strata {
namespace {

/// All stages' programs must meet, and all ranks must know where.
void join(std::vector<Plan>& plans) {
  std::set<Channel> channels;
  std::vector<RankProgram> training;
  OfInterludes<std::vector<RankProgram>> interludes;
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    const Plan& plan = plans[stage];
    const auto rank = static_cast<std::int64_t>(stage) * plan.strategy.mesh.tensor;
    const auto add = [&](const PlannedProgram& program, std::vector<RankProgram>& programs) {
      add_channels(program.program, rank, channels);
      programs.push_back({rank, &program.program, &program.dependencies});
    };
    add(plan.training, training);
    for (const auto& [interlude, program] : plan.interludes) add(program, interludes[interlude]);
  }
  if (plans.size() > 1) {
    verify_ranks(training);
    for (const auto& [interlude, programs] : interludes) verify_ranks(programs);
  }
  for (Plan& plan : plans) plan.channels = channels;
}

}  // namespace

std::optional<std::vector<Plan>> find_plans(const PlanRequest& request, const Model& model,
                                            std::vector<CheapestSearch>& searches) {
  std::vector<Plan> plans;
  for (CheapestSearch& search : searches) {
    Shortage shortage;
    std::optional<Placement> best = search.find_with_less(request.memory, shortage);
    if (!best) return std::nullopt;
    plans.push_back(finish(std::move(*best), request.memory, model));
  }
  join(plans);
  return plans;
}

}  // namespace strata
