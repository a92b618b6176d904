// What the run file leaves open: which order, which blocks save their activations, and what lives where.
#pragma once

#include <optional>

#include "engine/plan/search/placement.h"
#include "engine/plan/search/rates.h"

namespace strata {

/// The cheapest placement by `rates` that holds all budgets. Nothing if there is none; then `shortage`
/// says what tiers beyond the device lack, if it is they.
std::optional<Placement> find_cheapest(const RunConfig& config, const Model& model, const MachineRates& rates,
                                       Shortage& shortage);

/// The least memory.device that find_cheapest() finds a placement for, if the tiers beyond have room
/// enough.
Bytes smallest_device_bytes(const RunConfig& config, const Model& model);

}  // namespace strata
