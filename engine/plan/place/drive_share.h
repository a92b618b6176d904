// How a placed program is shared out between the host and drives, if the host has no room for all that it
// holds. Pure functions; any thread.
#pragma once

#include <optional>

#include "engine/plan/place/placement.h"

namespace strata {

/// Notes what the nvme tier would have to hold, if it does not.
bool lacks_drives(Bytes needed, const MemoryRequest& memory, Shortage& shortage);

bool fits_host(const Program& placed, const MemoryRequest& memory);

/// The least host memory that a placement runs in.
Bytes smallest_host_bytes(const Placement& placement, const MemoryRequest& memory);

/// Tries the ways to share out a placement between host and nvme tier, the fastest first. Room for three
/// visits lets one unit be read and another written while a third is updated. What training leaves on the
/// host can be more than validation has room for beside it: then all goes. Nothing if the nvme tier holds
/// none of them. REQUIRES: the host has room for the smallest.
std::optional<Placement> share_with_drives(const Placement& placement, const MemoryRequest& memory,
                                           Shortage& shortage);

}  // namespace strata
