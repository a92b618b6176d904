// The first line of strata plan: that the run fits, with how much, and how fast it is. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tools/report/figures.h"

namespace strata {

/// Each tier that the run uses, of the plan that takes most of it. REQUIRES: there is a plan; all have the
/// same budgets.
std::vector<TierPlan> fullest_tiers(const std::vector<Plan>& plans);

/// "fits     device 21.10 GiB of 22.50 GiB, host …; at most 4,678 tokens/s\n". `of_several` ranks each has
/// such tiers.
std::string fits_text(const std::vector<TierPlan>& tiers, double tokens_per_second, bool of_several);

}  // namespace strata
