#include "base/pacing_clock.h"

#include <thread>

namespace strata {

PacingClock PacingClock::steady() {
  return {.now = [] { return Seconds(std::chrono::steady_clock::now().time_since_epoch()); },
          .sleep = [](Seconds time) { std::this_thread::sleep_for(time); }};
}

}  // namespace strata
