// Counts what the global operator new of a test program gives out. Linked into the programs that ask.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::test {

/// From this size on a block counts as large: smaller ones are the small objects of libraries and schedulers.
constexpr std::size_t kLargeAllocation = 4096;

struct Allocations {
  std::int64_t all = 0, large = 0;
  std::int64_t bytes = 0;  ///< of all, whether or not they were given back
};
Allocations allocations_so_far();

}  // namespace strata::test
