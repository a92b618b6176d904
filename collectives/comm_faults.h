// Makes ranks slow, broken or dead in tests: consulted at the beginning of every call of a threads
// communicator.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

/// A call that a rank is about to make.
struct CommAttempt {
  int rank;                    ///< in the group from which all others were split
  std::string_view operation;  ///< "all_gather"; sends and receives that happen together are a "group"
  std::int64_t index;          ///< calls that the rank made on this communicator before
};

/// Called from the threads of all ranks at once.
class CommFaults {
 public:
  enum class Fate { arrives, never_arrives };

  virtual ~CommFaults() = default;
  /// May take its time: the rank is late. May throw: the rank fails with that error, and the calls of the
  /// others end.
  virtual Fate before(const CommAttempt& attempt) = 0;
};

}  // namespace strata
