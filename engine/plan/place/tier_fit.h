// Programs that are placed on a tier within a budget. Pure functions; any thread.
#pragma once

#include <optional>

#include "engine/plan/passes/tier_pair.h"
#include "engine/plan/program/program.h"

namespace strata {

/// The end of the highest buffer of the tier.
Bytes peak_of(const Program& placed, Tier tier);

/// The fast form of a pair's plain program, placed on the near tier and within `budget` there; nothing if
/// the plain form is larger, so that its peak is the smallest budget there is. Fragmentation can push a
/// placement over what live bytes promise: then passes get that much less to fill, what stays gathered
/// before all else. What is kept from use to use takes at most `kept_share` of the budget, if that is enough.
std::optional<Program> fit(Program plain, const TierPair& pair, Bytes budget, double kept_share = 1);

}  // namespace strata
