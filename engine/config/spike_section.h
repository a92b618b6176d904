// The section train.spike of a run file.
#pragma once

#include <cstdint>

namespace strata {

/// Which steps are skipped for the norm of their gradients: optim/spike.h.
struct SpikeSection {
  double factor = 0;  ///< 0: none
  std::int64_t window = 100;
  std::int64_t roll_back = 0;  ///< spikes in a row behind which the run goes back to a checkpoint; 0: never
  friend bool operator==(const SpikeSection&, const SpikeSection&) = default;
};

}  // namespace strata
