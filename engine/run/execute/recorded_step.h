// When the instructions of one round of a run really ran. Plain values. While the round runs, each lane
// writes those of its own instructions. They may be read when all lanes are through with the round.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/cost/timeline.h"
#include "engine/plan/place/plan.h"
#include "engine/run/execute/step_report.h"

namespace strata {

struct ModelReport {
  std::size_t model = 0;  ///< its number in the program
  StepReport report;
};

struct RecordedStep {
  const PlannedProgram* program = nullptr;
  std::int64_t round = 0;         ///< of its run of the executor, from 0
  std::int64_t begin_of_run = 0;  ///< nanoseconds since 1970, from which `times` count
  double seconds =
      0;  ///< from the report of the step before to its own; of a round of several models: the sum
  std::vector<ModelReport> reports = {};  ///< of each model that has a step in it
  /// By instruction of the program: seconds since the run began, or an end before the start if it did not
  /// run, or is of the lane save.
  std::vector<InstructionTime> times = {};
};

}  // namespace strata
