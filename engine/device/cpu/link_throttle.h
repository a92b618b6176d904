// Limits a link to a rate: a copy of n bytes takes no less than n / rate seconds. One object per direction,
// used by that direction's lane only, so the directions do not share bandwidth.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/pacing_clock.h"

namespace strata {

class LinkThrottle {
 public:
  /// Unlimited if no rate is given. REQUIRES: bytes_per_second > 0.
  explicit LinkThrottle(std::optional<double> bytes_per_second, PacingClock clock = PacingClock::steady());

  /// Copies, and returns when both the bytes and their time have passed.
  void copy(std::byte* to, const std::byte* from, Bytes bytes) const;

 private:
  std::optional<double> bytes_per_second_;
  PacingClock clock_;
};

}  // namespace strata
