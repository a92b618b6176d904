// What this machine can do, measured in a fraction of a second before training: the denominators of MFU and
// of the bound.
#pragma once

#include "engine/device/device.h"
#include "engine/plan/search/bound.h"

namespace strata {

/// FLOPs per second of a large matrix product: the best of three.
double product_rate(Device& device, const Precision& precision);

/// The best of three each: a large matrix product in `precision` and a large copy in each direction on the
/// device, and an AdamW update of host memory on `threads` threads. A limited link counts at its limit. If
/// the cores copy, also what one of them copies.
MachineRates measure_machine(Device& device, const Precision& precision, const LinkLimit& link, int threads);

}  // namespace strata
