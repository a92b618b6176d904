// A run that is only planned: its models as the machine of plan.machine would train them, or this one. It
// reads no data and touches no device.
#pragma once

#include <string>
#include <vector>

#include "engine/config/run_models.h"
#include "engine/model/model.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/precision.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {

struct RunToPlan {
  RunModels run;              ///< with precision and layout; budgets as the run file gives them
  std::vector<Model> models;  ///< as the first rank has them
  AgreedPrecision precision;  ///< of the first model
  std::string layout;         ///< a line on it if plan.search chose it; else empty
  std::vector<std::string> warnings;

  /// REQUIRES: this outlives what is returned.
  std::vector<ConfiguredModel> configured() const;
  /// Open budgets become what the machine has beside the run's share of it, which is returned. Throws
  /// ConfigError if a model is too large to plan.
  RunShare set_open_budgets();
};

/// Throws ConfigError if a model cannot be read, or if plan.search finds no layout of `ranks` ranks.
RunToPlan load_to_plan(RunModels run, std::int64_t ranks, const OnPlanning& on_planning);

}  // namespace strata
