// Internal to optim: the vector kernel over a stretch of memory. The kernel is chosen at run time for the
// processor; every target gives the bits of adamw_reference. Any thread.
#pragma once

#include "optim/adamw.h"

namespace strata {

/// `stream`: a parameter that is only written is written past the caches, for stretches that are larger than
/// them.
void adamw_kernel(const AdamWCoefficients& step, const AdamWState& state, bool stream);

}  // namespace strata
