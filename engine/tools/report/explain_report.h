// A planned run in words, for `strata explain`: what a step takes and what bounds it, what lives where and
// why, what lanes wait for, and what would help. Every figure is a plan's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/plan/planner/step_use.h"
#include "engine/run/tune/advice.h"

namespace strata {

/// Sentences under headings, each a line. If the run does not fit, why and what makes it fit. `uses` are of
/// the run, if it fits. `rates_are` says what the rates are: "nominal, …".
std::string explain_text(const AdviceInput& input, const Advice& advice, const std::vector<RankUse>& uses,
                         const MachineRates& rates, const std::string& rates_are);
/// Keys as documented in docs/reference/explain.md.
nlohmann::json explain_json(const Advice& advice, const std::vector<RankUse>& uses,
                            const MachineRates& rates);

}  // namespace strata
