// What a step tells when it is done.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

/// One finished step.
struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0;
  bool has_loss = true;  ///< false: no token of the step is a target, and the loss is not a number
  double grad_norm = 0, learning_rate = 0;
  bool skipped = false;     ///< it updated nothing
  std::int64_t spikes = 0;  ///< norms in a row, up to this step's, that were spikes: optim/spike.h
  double loss_scale = 1;    ///< of fp16 runs
  double seconds = 0;       ///< since the step before was reported, or since the executor began to run
  bool begins = false;  ///< the first since the executor began: it had no updates of a step before to make
  double drain_seconds =
      0;  ///< of the last before it pauses: until its updates were made, once it was reported

  /// Whether it updated nothing since its norm was a spike.
  constexpr bool spiked() const { return spikes > 0; }
};

/// Why a skipped step updated nothing: "gradients that are not finite".
constexpr std::string_view why_skipped(const StepReport& report) {
  return report.spiked() ? "gradients whose norm is a spike (train.spike)" : "gradients that are not finite";
}

}  // namespace strata
