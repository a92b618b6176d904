// What a run calls kernels with, and what they need besides the plan's memory.
#pragma once

#include "engine/device/scratch_rules.h"
#include "engine/plan/lower/strategy.h"

namespace strata {

/// Makes all calls of kernels that passes of this shape make, whatever they save. Operands are nowhere, but
/// aligned as in a run.
void make_calls(Kernels& kernels, const Model& model, DType precision, const MicrobatchShape& microbatch);

/// The largest need of all calls that the run's steps and interludes make. It depends on the model, the
/// microbatch, the samples and the precision alone, so it is known before there is a plan.
ScratchBytes scratch_of_run(const ScratchRules& rules, const Model& model, const Strategy& strategy);

}  // namespace strata
