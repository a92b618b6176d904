// From placed programs to plans: verified, with all that is said of them.
#pragma once

#include "engine/plan/place/placement.h"
#include "engine/plan/place/plan.h"

namespace strata {

/// Throws std::logic_error if the program is wrong: verify() in engine/plan/program/memory.h.
PlannedProgram finish(Program placed, const MemoryRequest& memory);
/// Finishes all programs of a model. Throws std::logic_error if one of them is wrong.
ModelPlan finish(Placement placement, const MemoryRequest& memory, const Model& model);

}  // namespace strata
