// When the instructions of one step of a run really ran. Plain values: each lane writes those of its own
// instructions while the step runs, and whoever reads them does so when no lane runs any more.
#pragma once

#include <vector>

#include "engine/plan/search/timeline.h"

namespace strata {

struct RecordedStep {
  double seconds =
      0;  ///< from the report of the step before to its own; of a round of several models: the sum
  /// By instruction of the program: seconds since the run began, or an end before the start if it did not
  /// run. Empty: nothing was recorded yet.
  std::vector<InstructionTime> times = {};
};

}  // namespace strata
