// The order in which a token's experts are chosen, for kernels of every device.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

/// Above all ranks.
constexpr std::uint64_t kAboveAllRanks = ~std::uint64_t{0};

/// A larger logit has a larger rank, a NaN one above all numbers'; of equal logits the first expert's is
/// larger. No two experts have the same.
constexpr std::uint64_t rank_of(float logit, std::int64_t expert) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);  // -0 is 0
  const std::uint32_t ascending = logit != logit ? ~0U : (bits & kSign) != 0 ? ~bits : bits | kSign;
  return std::uint64_t{ascending} << 32 | (0xfffffffeU - static_cast<std::uint32_t>(expert));
}

constexpr std::int32_t expert_of(std::uint64_t rank) {
  return static_cast<std::int32_t>(0xfffffffeU - static_cast<std::uint32_t>(rank));
}

}  // namespace strata
