// What the page of a profile draws, as JSON that stays small for a step of 100,000 instructions. Each field
// is a column. Names and sizes are numbers in tables, and times are differences of whole ticks.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tools/profile/step_profile.h"

namespace strata {

/// {"format", "version", "run", "texts": [text], "sizes": [bytes], "tiers", "kinds", "knobs": [kind][tier]
/// [{"key", "how"}], "profiles": [{"group", "name", "summary", "tick_seconds", "end", "slices", "lives"}]}.
/// A profile's summary is what summary.json has of it. Of `slices` and `lives` each key is a column:
/// - number, maker, last_user: instructions of the program, or -1; `number` as the difference to the slice
///   before.
/// - title and microbatch, name and microbatch: a text without its end " mb=2" or "[mb=2]", and that
///   number or -1.
/// - start (the difference to the slice before), duration, waited; from, to: ticks.
/// - awaited: an instruction or -1.
nlohmann::json page_data(const std::string& run, const std::vector<StepProfile>& planned,
                         const std::vector<StepProfile>& measured);

}  // namespace strata
