// The time and the sleep of what limits a rate, as values, so that tests run on a clock of their own.
#pragma once

#include <chrono>
#include <functional>

namespace strata {

struct PacingClock {
  using Seconds = std::chrono::duration<double>;

  std::function<Seconds()> now;
  std::function<void(Seconds)> sleep;  ///< may end early

  /// The machine's own.
  static PacingClock steady();

  /// Returns at `time` or later.
  void sleep_until(Seconds time) const {
    for (Seconds current = now(); current < time; current = now()) sleep(time - current);
  }
};

}  // namespace strata
