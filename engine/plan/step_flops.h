// How much a training step computes.
#pragma once

#include "engine/plan/strategy.h"

namespace strata {

/// FLOPs of one training step on each rank; the formulas stand in engine/model.
struct StepFlops {
  double model = 0;     ///< forward + backward: what MFU counts
  double executed = 0;  ///< with recomputation: what HFU counts
};
StepFlops step_flops(const Model& model, const Strategy& strategy);

}  // namespace strata
