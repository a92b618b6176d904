// The first part of an update by Muon or NorMuon: momentum, element by element. It leaves
// the direction of the step in the gradient's place, where it is orthogonalized before update() takes it.
#pragma once

#include "optim/optimizer_state.h"
#include "optim/step_scalars.h"

namespace strata {

/// The momentum buffer gets the gradient, and `direction` gets d of UpdateRule::muon over gradient_scale, so
/// that it has the range of gradients; `direction` may be the gradient itself. Runs on the TBB arena it is
/// called in. The result of an element depends only on that element. REQUIRES: orthogonalizes(state.rule).
void mix_momentum(const UpdateCoefficients& step, const OptimizerState& state, void* direction);

/// mix_momentum() in plain scalar code: the oracle.
void mix_momentum_reference(const UpdateCoefficients& step, const OptimizerState& state, void* direction);

}  // namespace strata
