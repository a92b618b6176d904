// Measures how long the kernels of a model's passes take on this machine.
#pragma once

#include "engine/device/device.h"
#include "engine/model/compute.h"
#include "engine/plan/search/kernel_times.h"

namespace strata {

/// Runs each pass of each kind of unit, whatever it saves, a few times on numbers that mean nothing, and
/// takes for each call of a kernel the median: what is in caches is what the calls before have left there.
/// Adds to `times`; passes all of whose calls it has are left out. Throws DeviceError if one needs more
/// memory than `room`.
void measure_kernels(Device& device, const Model& model, DType precision, const MicrobatchShape& shape,
                     Bytes room, KernelTimes& times);

}  // namespace strata
