// Limits a link to a rate: a copy of n bytes takes no less than n / rate seconds. One object per direction,
// used by that direction's lane only, so the directions do not share bandwidth. Time is a parameter: tests
// run on a clock of their own.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "engine/base/bytes.h"

namespace strata {

class LinkThrottle {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Clock {
    std::function<Seconds()> now;
    std::function<void(Seconds)> sleep;
  };

  /// Unlimited where no rate is given. REQUIRES: bytes_per_second > 0.
  explicit LinkThrottle(std::optional<double> bytes_per_second);
  LinkThrottle(std::optional<double> bytes_per_second, Clock clock);

  /// Copies, and returns when both the bytes and their time have passed.
  void copy(std::byte* to, const std::byte* from, Bytes bytes) const;

 private:
  std::optional<double> bytes_per_second_;
  Clock clock_;
};

}  // namespace strata
