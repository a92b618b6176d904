// From placed programs to plans: verified, with all that is said of them.
#pragma once

#include "engine/plan/search/placement.h"
#include "engine/plan/search/planner.h"

namespace strata {

TierBudgets budgets_of(const RunConfig::MemorySection& memory);

/// Throws std::logic_error if the program is wrong: verify() in engine/plan/program/memory.h.
PlannedProgram finish(Program placed, const RunConfig::MemorySection& memory);
/// Finishes all programs of a model. Throws std::logic_error if one of them is wrong.
Plan finish(Placement placement, const RunConfig& config, const Model& model);

}  // namespace strata
