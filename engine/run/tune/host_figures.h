// What planning reads that hosts may differ in: rates and budgets. Ranks plan by the smallest of all, so each
// comes to the same plan, and none plans for more than the poorest has. Plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/plan/cost/rates.h"

namespace strata {

struct RunConfig;

struct HostFigures {
  MachineRates rates;
  Bytes device = kUnlimited;
  std::optional<Bytes> host;  ///< of each rank
  Bytes nvme = kUnlimited;
  friend bool operator==(const HostFigures&, const HostFigures&) = default;
};

/// planning_rates() and the budgets as they stand in `config`.
HostFigures host_figures(const RunConfig& config);

/// For other ranks, to the bit.
std::string to_text(const HostFigures& figures);
HostFigures figures_from_text(const std::string& text);

/// The smallest rates and budgets, and the first's kernels; cores copy if they do anywhere. No host budget if
/// one has none: then the run files differ. REQUIRES: one at least.
HostFigures smallest(const std::vector<HostFigures>& all);

/// `config` with these budgets.
RunConfig with_budgets(RunConfig config, const HostFigures& figures);

}  // namespace strata
