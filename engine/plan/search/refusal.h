// What to tell a user whose budgets do not hold a run.
#pragma once

#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/search/search.h"

namespace strata {

/// Names the budget that is too small and the smallest that works: with what is named the run is planned, and
/// not with less of it. REQUIRES: `searches` are those of `config` for each stage of the pipeline, of which
/// one finds nothing.
ConfigError budget_error(const RunConfig& config, const Model& model, const MachineRates& rates,
                         std::vector<CheapestSearch> searches);

/// Larger budgets with which a run is planned; nothing: the run file's is enough.
struct NeededBudgets {
  std::optional<Bytes> device = {}, host = {}, nvme = {};
};
/// The smallest: the device's first, then what the host needs beside it, then the drives. REQUIRES: the run
/// has no plan.
NeededBudgets needed_budgets(const RunConfig& config, const Model& model, const MachineRates& rates);

/// By stage.
std::vector<CheapestSearch> searches_of(const RunConfig& config, const Model& model,
                                        const MachineRates& rates);

}  // namespace strata
