// The bytes that a rank sends to the others in each call, known before the call. Plans count them in advance,
// and communicators share out the work of a sum by the same rule. So all ranks of a group send equally much.
// Communicator::sent_bytes() has the bytes that really left. Plans count in signed numbers, communicators in
// unsigned ones.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace strata {

/// A call that moves no more than this to each rank is made in one exchange of everybody with everybody, not
/// in steps.
inline constexpr std::size_t kSmallCall = std::size_t{256} << 10;

/// Who makes a sum: rank r reduces elements r · part to (r + 1) · part and hands them to all. Every rank
/// reduces the `rest` behind them for itself: fewer elements than there are ranks, or all of a small call.
template <std::integral Number>
struct SharedSum {
  Number part, rest;
};

template <std::integral Number>
constexpr SharedSum<Number> share_sum(Number count, std::type_identity_t<Number> element_bytes,
                                      std::type_identity_t<Number> ranks) {
  if (count * element_bytes * ranks <= static_cast<Number>(kSmallCall)) return {.part = 0, .rest = count};
  return {.part = count / ranks, .rest = count % ranks};
}

/// In an all_gather, a reduce_scatter or an all_to_all of parts of `part_bytes` bytes.
template <std::integral Number>
constexpr Number sent_in_parts(Number part_bytes, std::type_identity_t<Number> ranks) {
  return (ranks - 1) * part_bytes;
}

/// In an all_reduce of `count` elements.
template <std::integral Number>
constexpr Number sent_in_sum(Number count, std::type_identity_t<Number> element_bytes,
                             std::type_identity_t<Number> ranks) {
  const SharedSum<Number> sum = share_sum(count, element_bytes, ranks);
  return (ranks - 1) * (2 * sum.part + sum.rest) * element_bytes;
}

}  // namespace strata
