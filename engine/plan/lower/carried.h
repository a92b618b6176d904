// What a round of an asynchronous pipeline leaves to the next: stashed parameters, and what the first passes
// of a step have made.
#pragma once

#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/step_builder.h"
#include "engine/plan/lower/step_values.h"

namespace strata {

/// Gives such values of units with state on the device a place there.
void keep_on_device(const Schedule& schedule, StepValues& step, StepBuilder& builder);

/// Keeps what lane cpu touches behind an exchange between ranks apart: it waits for the slowest of them,
/// which no pass of the next step must do that only comes to lie in the same bytes.
void keep_sums_apart(Program& program);

}  // namespace strata
