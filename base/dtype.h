// Element types of tensors; bfloat16 and float16 as storage types with round-to-nearest-even. The conversions
// are constexpr, so that CUDA code may use them on either side.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/nth.h"

namespace strata {

enum class DType : std::uint8_t { fp32, bf16, fp16 };

constexpr Bytes size_of(DType dtype) {
  return dtype == DType::fp32 ? 4 : 2;
}
constexpr std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, 3> kNames = {"fp32", "bf16", "fp16"};
  return nth(kNames, dtype);
}

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

/// IEEE 754 binary16. Storage only: arithmetic happens in float.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  /// Rounds to nearest, ties to even; overflow becomes infinity, a NaN stays a (quiet) NaN.
  explicit constexpr float16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint32_t>((word >> 16) & 0x8000U);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    } else if (magnitude >= 0x477ff000U) {  // rounds to 2^16 or is larger
      half = 0x7c00U;
    } else if (magnitude >= 0x38800000U) {  // normal: rebias the exponent and round the 13 low bits away
      half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    } else {  // subnormal: adding 1/2 aligns the value so that its last bit is 2^-24, rounded by the addition
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    std::uint32_t word = 0;
    if (magnitude >= 0x7c00U) {
      word = 0x7f800000U | (magnitude & 0x3ffU) << 13;
    } else if (magnitude >= 0x400U) {
      word = (magnitude << 13) + 0x38000000U;
    } else {  // subnormal: magnitude · 2^-24, exact
      word = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    }
    return std::bit_cast<float>(sign | word);
  }
  friend constexpr bool operator==(float16, float16) = default;
};
static_assert(sizeof(float16) == 2);

}  // namespace strata
