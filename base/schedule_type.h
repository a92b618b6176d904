// How a learning rate goes from the end of its warm-up to the last step, as run files name it and
// optim/schedule.h computes it.
#pragma once

#include <cstdint>

namespace strata {

/// Let p rise from 0 in the first step behind the warm-up to 1 in the last step. `left` is the part of
/// peak - minimum that a step has above the minimum.
enum class ScheduleType : std::uint8_t {
  constant,         ///< the peak
  linear,           ///< left = 1 - p
  cosine,           ///< left = (1 + cos πp) / 2
  polynomial,       ///< left = (1 - p)^power
  cosine_restarts,  ///< as cosine, `cycles` times, with p of each cycle
  wsd,              ///< the peak, and `shape` over the last decay_steps, with p of these
  inverse_sqrt,  ///< peak · √(timescale / (timescale + steps behind the warm-up)), and at least the minimum
  piecewise,     ///< peak · a factor that is linear between `points`, also in the warm-up
  plateau        ///< the peak, lowered when the held-out loss improves no more: optim/plateau.h
};

/// How wsd falls: left = 1 - p, (1 + cos πp) / 2, or 1 - √p (Hägele et al. 2024).
enum class DecayShape : std::uint8_t { linear, cosine, sqrt };

}  // namespace strata
