#include "engine/run/execute/space_wait.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "base/system_error.h"
#include "collectives/agreement.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kFirstPause{0.1}, kLongestPause{10};

/// False when the time is over.
bool wait_for_space(const SpaceWait& wait, Clock::time_point end) {
  for (Seconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    std::this_thread::sleep_for(std::min(pause, std::max(Seconds(end - Clock::now()), Seconds(0))));
    const std::string decision = text_of_first_rank(wait.ranks, [&]() -> std::string {
      if (Clock::now() >= end || wait.is_over()) return "give up";
      return wait.has_space() ? "try" : "wait";
    });
    if (decision != "wait") return decision == "try";
  }
}

}  // namespace

void save_in_space(const std::function<void()>& save, const SpaceWait& wait) {
  const auto seconds = std::chrono::duration_cast<Clock::duration>(Seconds(wait.seconds));
  Clock::time_point end;
  for (bool first = true;; first = false) {
    try {
      save();
      return;
    } catch (const SystemError& error) {
      if (!error.lacks_space()) throw;
      if (first) end = Clock::now() + seconds;
      if (first && wait.seconds > 0) wait.on_wait(error.what());
      if (!wait_for_space(wait, end)) throw;
    }
  }
}

}  // namespace strata
