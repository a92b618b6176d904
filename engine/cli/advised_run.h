// The run that strata explain and strata plan --simulate plan as it is, and with changes.
#pragma once

#include <vector>

#include "engine/cli/plan_target.h"
#include "engine/model/model.h"
#include "engine/plan/search/advice.h"

namespace strata {

/// A run and what its input refers to. It stays where it is.
struct AdvisedRun {
  /// Open budgets become what the machine has that the run is planned for, as strata plan does. Throws
  /// ConfigError.
  explicit AdvisedRun(PlanTarget target);
  AdvisedRun(const AdvisedRun&) = delete;
  AdvisedRun& operator=(const AdvisedRun&) = delete;
  ~AdvisedRun() = default;

  AdviceInput input;
  std::vector<Model> models;
};

}  // namespace strata
