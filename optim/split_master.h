// An fp32 master in two halves. The high half is the bf16 parameter that the model computes with, rounded
// half up in its bits and so away from zero. The rest is an int16 remainder. Both together are the master's
// exact bits, NaNs included, in 4 bytes instead of 6. The parameter differs from the master rounded to
// nearest even only in ties, and for NaNs of the highest payloads, which only the master then shows.
// Constexpr, so that CUDA code may use it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace strata {

using Remainder = std::int16_t;

struct SplitMaster {
  bfloat16 parameter;
  Remainder remainder;
};

/// All arithmetic is modulo 2^32.
constexpr SplitMaster split_master(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  SplitMaster halves = {};
  halves.parameter.bits = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
  halves.remainder = static_cast<Remainder>(static_cast<std::uint16_t>(bits));
  return halves;
}

constexpr float join_master(bfloat16 parameter, Remainder remainder) {
  const auto sign_extended = static_cast<std::uint32_t>(std::int32_t{remainder});
  return std::bit_cast<float>((std::uint32_t{parameter.bits} << 16) + sign_extended);
}

}  // namespace strata
