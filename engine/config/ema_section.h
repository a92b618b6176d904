// The section train.ema of a run file.
#pragma once

#include <cstdint>

#include "engine/config/choices.h"

namespace strata {

/// Exponential moving averages of what is trained: optim/average.h.
struct EmaSection {
  double decay = 0;        ///< 0: there are none
  std::int64_t every = 1;  ///< updates
  AverageFormat format = AverageFormat::fp32;
  friend bool operator==(const EmaSection&, const EmaSection&) = default;
};

}  // namespace strata
