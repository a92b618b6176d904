#include "base/random.h"

#include <cmath>
#include <numbers>

namespace strata {

CounterRandom::CounterRandom(std::uint64_t seed, std::uint64_t stream)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, stream_(stream) {}

std::array<std::uint32_t, 4> CounterRandom::words(std::uint64_t index) const {
  std::array<std::uint32_t, 4> counter = {
      static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
      static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)};
  std::array<std::uint32_t, 2> key = key_;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

std::uint64_t CounterRandom::integer(std::uint64_t index) const {
  const auto w = words(index);
  return (std::uint64_t{w[1]} << 32) | w[0];
}

float CounterRandom::normal(std::uint64_t index) const {
  const auto w = words(index);
  const double u = (w[0] + 1.0) * 0x1p-32;  // (0, 1]: its logarithm is finite
  const double angle = 2.0 * std::numbers::pi * (w[1] * 0x1p-32);
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
}

}  // namespace strata
