// The words for a change of a run and for what a plan with it would do.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/run/tune/advice.h"

namespace strata {

/// "1.812 s" or "34.1 ms", with as many digits as tell apart what differs by a percent.
std::string seconds_text(double seconds);
/// "25593 tokens/s".
std::string speed_text(const Prediction& prediction);

/// The change as a line to take over, and under it the step's time, speed and memory before and after it, and
/// what it does to results. `now` is null if the run does not fit.
std::string change_text(const Prediction& change, const Prediction* now, std::size_t number);
/// Keys as documented in docs/reference/explain.md.
nlohmann::json prediction_json(const Prediction& prediction);

}  // namespace strata
