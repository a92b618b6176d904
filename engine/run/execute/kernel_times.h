// Measures how long the kernels of a model's passes take on this machine.
#pragma once

#include "engine/device/device.h"
#include "engine/model/compute.h"
#include "engine/plan/cost/kernel_times.h"

namespace strata {

/// Runs each pass of each kind of unit a few times on meaningless numbers, and takes the median for each call
/// of a kernel. Caches hold what the calls before have left there, as in a run. Adds to `times`, and leaves
/// out the passes whose calls `times` has all. Throws DeviceError if one needs more memory than `room`.
void measure_kernels(Device& device, const Model& model, DType precision, const MicrobatchShape& shape,
                     Bytes room, KernelTimes& times);

}  // namespace strata
