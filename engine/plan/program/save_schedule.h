// Which steps of a run save the state.
#pragma once

#include <cstdint>

namespace strata {

/// A step saves if it is the last of `every` steps, or of the run. Steps count from 0.
struct SaveSchedule {
  std::int64_t every = 0;  ///< 0: no step does
  std::int64_t steps = 0;  ///< of the whole run

  bool saves(std::int64_t step) const { return every > 0 && latest(step) == step; }
  /// The latest step up to `step` that saves, or -1.
  std::int64_t latest(std::int64_t step) const {
    if (every == 0) return -1;
    return step + 1 == steps ? step : (step + 1) / every * every - 1;
  }
};

}  // namespace strata
