// The run that strata explain and strata plan --simulate plan as it is, and with changes.
#pragma once

#include "engine/run/assembly/run_to_plan.h"
#include "engine/run/tune/advice.h"

namespace strata {

/// A run and the input that refers to it. It stays where it is.
struct AdvisedRun {
  /// Open budgets become what the machine has that the run is planned for, as strata plan does. Throws
  /// ConfigError.
  explicit AdvisedRun(RunToPlan loaded);
  AdvisedRun(const AdvisedRun&) = delete;
  AdvisedRun& operator=(const AdvisedRun&) = delete;
  ~AdvisedRun() = default;

  RunToPlan run;
  AdviceInput input;
};

}  // namespace strata
