// What instructions of a step take together, by lane and by kind: as the rates of a machine say, and as a run
// has measured it. What they differ by corrects the rates. Pure functions; any thread.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "base/enum_array.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/program/program.h"

namespace strata {

struct StepTimes {
  double step = 0;  ///< seconds from a step's end to the next one's
  EnumArray<Lane, double> by_lane = {};
  std::array<double, kOperations> by_operation = {};

  /// Adds what instructions took that every step performs. REQUIRES: the times are of this program.
  void add(const Program& program, std::span<const InstructionTime> times);
};

/// One step by the rates of a machine, and as a run has measured it, on one rank.
struct StepComparison {
  StepTimes simulated, measured;
};

/// {"simulated_seconds", "measured_seconds", "lanes": {lane: both}, "operations": {operation: both}}: lanes
/// and operations that have something to do.
nlohmann::json comparison_json(const StepComparison& comparison);
/// Throws nlohmann's exception if a time is missing or no number.
StepComparison comparison_from_json(const nlohmann::json& json);

/// Rates by which the simulated step's passes, copies, transfers of drives and updates on the host would have
/// taken as long as was measured. Exchanges between ranks stay as they are, since what was measured of them
/// is also how long ranks waited for one another; and so does a rate that no instruction has used.
MachineRates corrected(MachineRates rates, const StepComparison& comparison);

}  // namespace strata
