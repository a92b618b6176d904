// What to tell a user whose budgets do not hold a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/plan/place/search.h"

namespace strata {

struct Model;

/// Larger budgets with which a run is planned; nothing: what there is is enough. They are the smallest: the
/// device's first, then what the host needs beside it, then the drives.
struct NeededBudgets {
  std::optional<Bytes> device = {}, host = {}, nvme = {};
};

/// The budgets do not hold the run.
struct BudgetError : ConfigError {
  explicit BudgetError(const std::string& sentence, NeededBudgets budgets = {})
      : ConfigError(sentence), needed(budgets) {}

  NeededBudgets needed;  ///< as the sentence says; nothing if it is of several models
};

/// Names the budget that is too small and the smallest that works. With that budget the run is planned, and
/// with a smaller one it is not. REQUIRES: `searches` are those of `request` for each stage of the pipeline,
/// and one of them finds nothing.
BudgetError budget_error(const PlanRequest& request, const Model& model, const MachineRates& rates,
                         std::vector<CheapestSearch> searches);

/// By stage.
std::vector<CheapestSearch> searches_of(const PlanRequest& request, const Model& model,
                                        const MachineRates& rates);

}  // namespace strata
