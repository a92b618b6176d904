#include "engine/plan/search/planner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/search/find_plans.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/search.h"

namespace strata {

Bytes arena_bytes(const PlannedProgram& training, const OfInterludes<PlannedProgram>& interludes, Tier tier) {
  Bytes bytes = training.use[tier].peak_bytes;
  for (const auto& [interlude, program] : interludes) bytes = std::max(bytes, program.use[tier].peak_bytes);
  return bytes;
}

Bytes Plan::arena_bytes(Tier tier) const {
  return strata::arena_bytes(training, interludes, tier);
}

std::vector<Plan> make_plans(const PlanRequest& request, const Model& model, const MachineRates& rates) {
  std::vector<CheapestSearch> searches = searches_of(request, model, rates);
  std::optional<std::vector<Plan>> plans = find_plans(request, model, searches);
  if (!plans) throw budget_error(request, model, rates, std::move(searches));
  return std::move(*plans);
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

Plan make_plan(const PlanRequest& request, const Model& model, const MachineRates& rates) {
  return std::move(make_plans(request, model, rates).front());
}

}  // namespace strata
