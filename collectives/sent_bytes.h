// What a rank sends to the others in each call, before the call is made: plans count it in advance, and
// communicators share out the work of a sum by the same rule, so that all ranks of a group send equally much.
// For which bytes really leave, ask Communicator::sent_bytes().
#pragma once

#include <cstddef>

namespace strata {

/// A call that moves no more than this to each rank is made in one exchange of everybody with everybody, not
/// in steps.
inline constexpr std::size_t kSmallCall = std::size_t{256} << 10;

/// Who makes a sum: rank r reduces elements r · part to (r + 1) · part and hands them to all. Every rank
/// reduces the `rest` behind them for itself: fewer elements than there are ranks, or all of a small call.
struct SharedSum {
  std::size_t part, rest;

  static constexpr SharedSum of(std::size_t count, std::size_t element_bytes, std::size_t ranks) {
    if (count * element_bytes * ranks <= kSmallCall) return {.part = 0, .rest = count};
    return {.part = count / ranks, .rest = count % ranks};
  }
};

/// In an all_gather, a reduce_scatter or an all_to_all of parts of so many bytes.
constexpr std::size_t sent_in_parts(std::size_t part_bytes, std::size_t ranks) {
  return (ranks - 1) * part_bytes;
}

/// In an all_reduce of `count` elements.
constexpr std::size_t sent_in_sum(std::size_t count, std::size_t element_bytes, std::size_t ranks) {
  const SharedSum sum = SharedSum::of(count, element_bytes, ranks);
  return (ranks - 1) * (2 * sum.part + sum.rest) * element_bytes;
}

}  // namespace strata
