// The linear program whose least cost is the certificate: what share of each kind of units goes which way,
// and what that asks of memory and of time. docs/explanation/bound.md derives its rows. Pure functions; any
// thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/plan/bound/certificate.h"
#include "engine/plan/bound/linear_program.h"
#include "engine/plan/program/memory.h"

namespace strata {

struct BoundProgram {
  LinearProgram program;
  /// By row, if it says how long a step takes; other rows have nothing.
  std::vector<std::optional<BoundArgument>> arguments;
  double scale = 1;  ///< seconds of a cost of 1
};

/// Only the given arguments say how long a step takes.
BoundProgram bound_program(const StepFacts& facts, const TierBudgets& budgets, const MachineRates& rates,
                           std::span<const BoundArgument> arguments);

}  // namespace strata
