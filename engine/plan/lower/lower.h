// Lowering: model × strategy → the plain program, in which every value has its home on the host, is fetched
// right before each use and written back right after. It runs in the least device memory possible; residency
// and prefetch make it fast.
#pragma once

#include "engine/plan/lower/strategy.h"
#include "engine/plan/program/program.h"

namespace strata {

/// One optimizer step: load, then the visits of training_schedule(). If some steps save, a unit's way to the
/// checkpoint begins once it is updated.
Program lower_training(const Model& model, const Strategy& strategy);

/// The mean loss of held-out microbatches: forward only. Persistent buffers are those of lower_training, in
/// the same order.
Program lower_validation(const Model& model, const Strategy& strategy);

}  // namespace strata
