// Traffic: the bytes that instructions move over the links between tiers, for plans and for measurements
// alike.
#pragma once

#include "engine/plan/program.h"

namespace strata {

/// Bytes by lane; only links have any.
using Traffic = std::array<Bytes, kLanes.size()>;

/// Adds what one instruction moves.
void add_traffic(const Program& program, const Instruction& instruction, Traffic& traffic);

/// Of all instructions that run in every step, or of those that only steps that save run.
Traffic traffic_of(const Program& program, When when);

}  // namespace strata
