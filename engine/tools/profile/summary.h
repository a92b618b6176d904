// A profile's figures as JSON: what its pages show, for programs.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/tools/profile/step_profile.h"

namespace strata {

/// The figures of a profile:
///
///     {"seconds", "lanes": {lane: {"slices", "busy_seconds", "waited_seconds", "waited_for":
///     {operation: seconds}}}, "memory": {tier: {"peak_bytes", "live_peak_bytes", "live_peak_at_seconds",
///     "by_kind", "at_peak": [{"name", "kind", "bytes", "made_by", "last_used_by", "from_seconds",
///     "to_seconds", "moved_by"}]}}, "traffic": {link: bytes}}
///
/// "name", "bound", "needs" and each tier's "budget_bytes" are there if they are known. "at_peak" has the
/// buffers that are alive at the peak, the largest first, `kMostListed` at most.
nlohmann::json summary_of(const StepProfile& profile);

inline constexpr std::size_t kMostListed = 100;

}  // namespace strata
