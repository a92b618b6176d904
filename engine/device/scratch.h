// Working memory that kernels need besides their operands. It is no part of a plan's tiers, so it is worked
// out before a run, set up once, and reported under its own name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace strata {

/// What a call needs, or the largest need of many calls.
struct ScratchBytes {
  Bytes shared = 0;      ///< once
  Bytes per_thread = 0;  ///< for each of the device's threads, if those have memory of their own

  void raise(const ScratchBytes& call) {
    shared = std::max(shared, call.shared);
    per_thread = std::max(per_thread, call.per_thread);
  }
  friend bool operator==(const ScratchBytes&, const ScratchBytes&) = default;
};

/// A part of what a device sets up for its kernels, with a name for people.
struct ScratchPart {
  std::string name;
  Bytes bytes = 0;
};

inline Bytes total(const std::vector<ScratchPart>& parts) {
  Bytes sum = 0;
  for (const ScratchPart& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace strata
