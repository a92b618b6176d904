// Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A value depends only on (seed, stream, index), so it is the same for every layout, order and
// thread count.
#pragma once

#include <array>
#include <cstdint>

namespace strata {

class CounterRandom {
 public:
  /// `stream` separates users of one seed, for example the hash of a tensor's name.
  CounterRandom(std::uint64_t seed, std::uint64_t stream);

  /// Four independent uniform words for counter value `index`.
  std::array<std::uint32_t, 4> words(std::uint64_t index) const;
  /// Uniform in [0, 2^64).
  std::uint64_t integer(std::uint64_t index) const;
  /// Standard normal (Box-Muller). Element `index` of a tensor takes normal(index).
  float normal(std::uint64_t index) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
};

}  // namespace strata
