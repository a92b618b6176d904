// A simulated step for a terminal and for programs: how long it takes, who is busy, who waits, and what a
// little more of each resource would save.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/plan/planner/step_use.h"
#include "engine/run/tune/sensitivity.h"

namespace strata {

std::string simulate_text(const SimulatedRun& simulated, const std::vector<RankUse>& uses);
/// {"simulated": {"step_seconds": …, "idle": {lane: share}, …}}, as docs/reference/explain.md lists it.
nlohmann::json simulate_json(const SimulatedRun& simulated, const std::vector<RankUse>& uses);

}  // namespace strata
