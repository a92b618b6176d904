// What a little more of each resource would save of a planned step. Pure functions; changes are planned side
// by side on the arena that the caller runs in.
#pragma once

#include <string>
#include <vector>

#include "engine/run/tune/advice.h"

namespace strata {

/// Resources grow by this share.
constexpr double kMoreOfEach = 0.125;

struct Sensitivity {
  std::string resource;  ///< a budget's key, or a rate's of a profile
  std::string unit;      ///< "GiB", "GB/s" or "TFLOP/s"
  double more = 0;       ///< kMoreOfEach of it, in that unit
  double saved = 0;      ///< seconds of a step

  double saved_per_unit() const { return saved / more; }
};

/// A run as it is planned, and what would change its step: a larger budget by planning the run again with it,
/// a faster link by the same plan. The plan as it is does with more of anything, so nothing saves less than
/// 0.
struct SimulatedRun {
  PlannedRun run;
  MachineRates rates;
  std::vector<Sensitivity> sensitivities;  ///< of what the run uses, what saves most first
};

/// Throws ConfigError if the run does not fit.
SimulatedRun simulate(const AdviceInput& input);

}  // namespace strata
