// What this machine can do, measured in a fraction of a second before training: the denominators of MFU and of the bound.
#pragma once

#include "engine/device/device.h"
#include "engine/plan/bound.h"

namespace strata {

/// Times a large matrix product in `dtype`, a large addition and a large copy, the best of three each. A limited link counts
/// at its limit.
MachineRates measure_machine(Kernels& kernels, DType dtype, const LinkLimit& link);

}  // namespace strata
