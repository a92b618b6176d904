// What to tell a user whose budgets do not hold a run.
#pragma once

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/search/search.h"

namespace strata {

/// Names the budget that is too small and the smallest that works: with what is named the run is planned, and
/// not with less of it. REQUIRES: `search` is that of `config`, and finds nothing.
ConfigError budget_error(const RunConfig& config, const Model& model, const MachineRates& rates,
                         CheapestSearch search);

}  // namespace strata
