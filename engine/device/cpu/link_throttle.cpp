#include "engine/device/cpu/link_throttle.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace strata {
namespace {

/// Bytes that arrive at once: small enough that a slow link's data trickles in, large enough for memcpy.
constexpr Bytes kPiece = 1 * MiB;

}  // namespace

LinkThrottle::LinkThrottle(std::optional<double> bytes_per_second, PacingClock clock)
    : bytes_per_second_(bytes_per_second), clock_(std::move(clock)) {}

void LinkThrottle::copy(std::byte* to, const std::byte* from, Bytes bytes) const {
  if (bytes == 0) return;  // of nothing, which may be nowhere
  if (!bytes_per_second_) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  const PacingClock::Seconds start = clock_.now();
  for (Bytes done = 0; done < bytes;) {
    const Bytes piece = std::min(kPiece, bytes - done);
    std::memcpy(to + done, from + done, static_cast<std::size_t>(piece));
    done += piece;
    clock_.sleep_until(start + PacingClock::Seconds(static_cast<double>(done) / *bytes_per_second_));
  }
}

}  // namespace strata
