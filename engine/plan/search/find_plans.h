// Plans from a search, without words for budgets that are too small. Finding a budget that works takes longer
// than finding no plan, and a caller that tries many runs does not ask for one.
#pragma once

#include <optional>
#include <vector>

#include "engine/plan/search/planner.h"
#include "engine/plan/search/search.h"

namespace strata {

/// A plan for each stage of the pipeline; nothing if some stage has none. REQUIRES: `searches` are those of
/// `request`, by stage.
std::optional<std::vector<Plan>> find_plans(const PlanRequest& request, const Model& model,
                                            std::vector<CheapestSearch>& searches);

}  // namespace strata
