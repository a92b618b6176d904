// Rounding to bf16 up or down at random: the nearer a neighbour is, the likelier it is taken. So sums of many
// small changes keep their mean where rounding to nearest would lose each of them (Gupta et al. 2015). The
// random bits are a hash of the run's seed, the count of updates, the unit and the element's index in it.
// They do not depend on placement, threads, vectors or device. Constexpr, so that CUDA code may use it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace strata {

/// A bijection. Each input bit changes each output bit with a probability of very nearly 1/2:
/// Ettinger's "lowbias32" with the constants of the hash prospector's issue 19.
constexpr std::uint32_t mix_bits(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  x = (x ^ (x >> 15)) * 0xd35a2d97U;
  return x ^ (x >> 15);
}

/// Where a unit's hashes start in an update: `update_key` stands for seed and update count. Element i, modulo
/// 2^32, has the random word mix_bits(key + i), whose parts random_half() gives.
constexpr std::uint32_t rounding_key(std::uint32_t update_key, std::uint32_t unit) {
  return mix_bits(update_key ^ mix_bits(unit));
}

/// What rounds a rule's moment `number` in the element with this random word: its low half, its high half, or
/// the low half of its hash.
constexpr std::uint32_t random_half(std::uint32_t word, int number) {
  return number == 1 ? word >> 16 : (number == 0 ? word : mix_bits(word)) & 0xffffU;
}

/// What rounds a parameter that is its own master: the high half of that hash.
constexpr std::uint32_t random_half_of_master(std::uint32_t word) {
  return mix_bits(word) >> 16;
}

/// `random` is uniform in [0, 2^16). Zeros, infinities and NaNs stay what they are; beyond the largest bf16
/// lies infinity, as in rounding to nearest.
constexpr bfloat16 round_stochastically(float value, std::uint32_t random) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7f800000U) == 0x7f800000U) return bfloat16(value);
  bfloat16 rounded = {};
  rounded.bits = static_cast<std::uint16_t>((word + random) >> 16);
  return rounded;
}

}  // namespace strata
