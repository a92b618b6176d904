// What a run trained beside, if it kept frozen matrices as codes in blocks.
#pragma once

#include "base/dtype.h"
#include "engine/config/choices.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/state_access.h"

namespace strata {

/// Reads what `read` does, and instead of the weights of linear layers the numbers that their codes stand for
/// in a run of that precision (engine/model/packing.h). REQUIRES: has_blocks(format).
ReadTensor read_rounded_blocks(ReadTensor read, ParameterFormat format, DType precision);

/// Reads `base` as the manifest's run has read it. REQUIRES: the manifest names one.
ReadTensor as_trained(ReadTensor base, const Manifest& manifest);

}  // namespace strata
