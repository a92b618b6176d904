// What a run has done so far besides its state, as plain values.
#pragma once

#include <cstdint>

#include "optim/loss_scale.h"
#include "optim/plateau.h"

namespace strata {

struct Counters {
  std::int64_t step = 0;     ///< finished steps: the next one to run
  std::int64_t updates = 0;  ///< applied as a whole
  std::int64_t skipped = 0;  ///< steps whose gradients were not finite, or a spike
  double norm = 0;           ///< of the gradients of the last step with a finite one; 0: none yet
  double mean_norm = 0;      ///< of those of the steps before the next one: optim/spike.h
  std::int64_t spikes = 0;   ///< in a row, up to the last step
  /// Steps whose data were left out when the run went back to a checkpoint: step s has data of s +
  /// passed_over.
  std::int64_t passed_over = 0;
  Plateau plateau = {};  ///< changes between steps alone
  friend bool operator==(const Counters&, const Counters&) = default;
};

/// What ranks add up at a step's end, as an array of doubles.
struct StepSums {
  double loss = 0;   ///< of tokens, divided by all ranks' tokens
  double stops = 0;  ///< ranks that were asked to stop
};

/// What grad_norm leaves for the step's checkpoint: counters and loss scale as the step after it finds them.
/// The next grad_norm changes both, perhaps while the checkpoint is still being written.
struct StepRecord {
  Counters counters;
  LossScale loss_scale;
};

}  // namespace strata
