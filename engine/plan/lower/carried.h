// What a round of an asynchronous pipeline leaves to the next: stashed parameters, and what the first passes
// of a step have made.
#pragma once

#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/step_builder.h"
#include "engine/plan/lower/step_values.h"

namespace strata {

/// Gives such values of units with state on the device a place there.
void keep_on_device(const Schedule& schedule, StepValues& step, StepBuilder& builder);

/// Keeps the buffers apart that lane cpu touches after an exchange between ranks. Lane cpu waits for the
/// slowest rank. A pass of the next step would wait, too, if it lay in the same bytes.
void keep_sums_apart(Program& program);

}  // namespace strata
