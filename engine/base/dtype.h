// Element types of tensors, and bfloat16 as a storage type with round-to-nearest-even.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "engine/base/bytes.h"

namespace strata {

enum class DType : std::uint8_t { fp32, bf16 };

constexpr Bytes size_of(DType dtype) { return dtype == DType::fp32 ? 4 : 2; }
constexpr std::string_view name_of(DType dtype) { return dtype == DType::fp32 ? "fp32" : "bf16"; }

/// The high half of an IEEE float. Storage only: arithmetic happens in float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  explicit constexpr bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40U);
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
  }
  explicit constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  friend constexpr bool operator==(bfloat16, bfloat16) = default;
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace strata
