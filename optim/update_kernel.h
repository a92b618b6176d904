// Internal to optim: the vector kernel over a stretch of memory. The kernel is chosen at run time for the
// processor; every target gives the bits of update_reference. Any thread.
#pragma once

#include "optim/update.h"

namespace strata {

/// `stream`: a parameter that is only written is written past the caches, for stretches that are larger than
/// them.
void update_kernel(const UpdateCoefficients& step, const OptimizerState& state, bool stream);

}  // namespace strata
