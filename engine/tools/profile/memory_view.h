// A step's memory as the snapshot that PyTorch's page of memory draws (https://docs.pytorch.org/memory_viz):
// a pickle, made from a plan before anything has run. Its devices are the tiers, its addresses the places in
// them, and the stack of an allocation says which instruction makes the buffer, and its kind.
#pragma once

#include <string>

#include "engine/tools/profile/step_profile.h"

namespace strata {

/// The bytes of the file (pickle protocol 2). Allocations are in program order: the page shows no time.
std::string make_memory_view(const StepProfile& profile);

}  // namespace strata
