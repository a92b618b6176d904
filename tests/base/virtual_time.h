// A clock that only moves when somebody sleeps, and that wakes sleepers early to see whether they notice.
#pragma once

#include <algorithm>

#include "base/pacing_clock.h"

namespace strata::test {

struct VirtualTime {
  using Seconds = PacingClock::Seconds;

  Seconds time{100};
  Seconds longest_sleep{0};
  bool wakes_early = false;

  PacingClock clock() {
    return {.now = [this] { return time; },
            .sleep =
                [this](Seconds duration) {
                  longest_sleep = std::max(longest_sleep, duration);
                  time += wakes_early ? duration / 2 + Seconds(1e-9) : duration;
                }};
  }
};

}  // namespace strata::test
