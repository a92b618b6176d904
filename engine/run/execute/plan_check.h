// Holds a plan against what its run really did.
#pragma once

#include <string>
#include <vector>

#include "engine/run/execute/trainer.h"

namespace strata {

/// What the plan says that all training steps of the run moved together.
Bytes planned_bytes(const Plan& plan, const TrainResult& result, Link link);

/// A sentence for each figure of the plan that the run found to be wrong: a tier's peak, a link's bytes, or
/// memory that is in no tier. A run that was stopped may have begun a step that it did not finish, and one
/// that did not save what a save needs, so of those only what is too much is told.
std::vector<std::string> differences_from_plan(const Plan& plan, const TrainResult& result);

}  // namespace strata
