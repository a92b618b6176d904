// Places for buffers in one arena, given one after another: each at the lowest offset that is free over its
// whole lifetime. The program's time is a tree of periods, and each period knows which bytes are taken in it.
// A lifetime is a few periods, so a place is found and taken in about the logarithm of the buffers.
#pragma once

#include <vector>

#include "engine/plan/program/byte_ranges.h"
#include "engine/plan/program/program.h"

namespace strata {

class Packer {
 public:
  /// For buffers with these lifetimes; nothing lies below `start`.
  Packer(const std::vector<Lifetime>& lifetimes, Bytes start);

  /// The offset of a buffer with one of the lifetimes, `least` or more; its bytes are then taken while it
  /// lives.
  Bytes place(Bytes bytes, const Lifetime& live, Bytes least = 0);
  /// Takes these bytes while a buffer with one of the lifetimes lives.
  void take(Bytes offset, Bytes bytes, const Lifetime& live);

 private:
  static constexpr std::int32_t kFan = 4;  ///< parts of a period

  struct Period {
    ByteRanges throughout;  ///< bytes of buffers that live in all of it, but not in all of the period above
    ByteRanges within;      ///< bytes of buffers that live in some of it
  };

  /// Calls visit(period, is_whole) for those that make up the moments [first, last], and for all above these.
  template <typename Visit>
  void for_each_period(std::int32_t first, std::int32_t last, const Visit& visit);
  /// Calls visit(period, is_whole) for the periods that make up a lifetime, and for all above these.
  template <typename Visit>
  void for_each_period(const Lifetime& live, const Visit& visit);
  Bytes lowest_free(const Lifetime& live, Bytes bytes, Bytes least);

  Bytes start_;
  /// The times at which lifetimes begin. Two that overlap share one of them, so no other times matter.
  std::vector<std::int32_t> moments_;
  std::int32_t leaves_ = 1;
  std::vector<Period> periods_;           ///< [0] is all of the time, [kFan i + 1] is the first part of [i]
  std::vector<ByteRanges::Climb> taken_;  ///< of the lifetime that is being placed
};

}  // namespace strata
