// What a step costs: by that, choices are compared.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "engine/plan/cost/rates.h"
#include "engine/plan/program/program.h"

namespace strata {

struct StepCost {
  double seconds = 0;    ///< by estimated_seconds()
  double computing = 0;  ///< of these, of what the device computes, or all cores
  Bytes moved = 0;       ///< to and from the device, and to other ranks
  Bytes live = 0;        ///< on the device
};

/// The cost of a plain program on a device of `budget`; nothing if it is too small.
std::optional<StepCost> step_cost(const Program& plain, Bytes budget, const MachineRates& rates);

/// Whether a step takes less time, or as much and moves less.
bool is_cheaper(const StepCost& a, const StepCost& b);

/// The cost of a placed program, with the seconds that drives take.
StepCost placed_cost(const Program& placed, const MachineRates& rates);

/// The largest numbers with which a program moves nothing for lack of room on the device. What it moves then
/// are parameters updated on the host, gradients on their way there, data and losses, and what ranks send
/// in any case.
struct LargestNumbers {
  std::size_t copying_nothing = 0;
  std::size_t gathering_nothing = 0;  ///< again, and copying nothing
};

/// Up to `most`; 0 if there are none. `plain` gives the plain program of a number, which needs the more room
/// the larger that is.
LargestNumbers largest_with_room(std::size_t most, Bytes budget,
                                 const std::function<Program(std::size_t)>& plain);

}  // namespace strata
