// FP8's e4m3: sign, 4 bits of exponent, 3 of mantissa, no infinities (Micikevicius et al., "FP8 formats for
// deep learning", 2022; torch's float8_e4m3fn). And the scale by which a tensor's numbers are brought into
// its narrow range. The conversions are constexpr, so that CUDA code may use them on either side.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace strata {

/// Storage only: arithmetic happens in float.
struct float8_e4m3 {
  std::uint8_t bits = 0;

  float8_e4m3() = default;
  /// Rounds to nearest, ties to even; what is larger than 448 becomes 448. A NaN stays one, and an infinity
  /// becomes one: as 448 it would look like a number.
  explicit constexpr float8_e4m3(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    std::uint32_t code = 0;
    if (magnitude >= 0x7f800000U) {
      code = 0x7fU;
    } else if (magnitude >= 0x3c800000U) {  // normal: rebias the exponent and round the 20 low bits away
      code = std::min((magnitude - 0x3c000000U + 0x7ffffU + ((magnitude >> 20) & 1U)) >> 20, 0x7eU);
    } else {  // subnormal: adding 2^14 aligns the value so that its last bit is 2^-9, rounded by the addition
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14F) - 0x46800000U;
    }
    bits = static_cast<std::uint8_t>(((word >> 24) & 0x80U) | code);
  }
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x80U) << 24;
    const std::uint32_t magnitude = bits & 0x7fU;
    std::uint32_t word = 0;
    if (magnitude == 0x7fU) {
      word = 0x7fc00000U;
    } else if (magnitude >= 8U) {
      word = (magnitude << 20) + 0x3c000000U;
    } else {  // subnormal: magnitude · 2^-9, exact
      word = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9F);
    }
    return std::bit_cast<float>(sign | word);
  }
  friend constexpr bool operator==(float8_e4m3, float8_e4m3) = default;
};
static_assert(sizeof(float8_e4m3) == 1);

/// A scale as it lies beside codes.
struct Float8Factors {
  float factor = 1, inverse = 1;
};

/// What numbers are multiplied by before they are rounded to e4m3: a power of two, so that taking it back is
/// exact.
struct Float8Scale {
  int exponent = 0;

  /// The largest scale with which `largest`, finite and not negative, is at most 448. Within limits: with
  /// the numbers of e4m3, divided by it, all that are not 0 are normal and finite numbers of bf16.
  static constexpr Float8Scale of(float largest) {
    const auto word = std::bit_cast<std::uint32_t>(largest);
    const int exponent = static_cast<int>(word >> 23) - 127;
    const bool is_above = (word & 0x7fffffU) > 0x600000U;  // 448 is 1.75 · 2^8
    return {std::clamp(8 - exponent - (is_above ? 1 : 0), -119, 117)};
  }

  constexpr float factor() const { return power_of_two(exponent); }
  constexpr float inverse() const { return power_of_two(-exponent); }
  constexpr Float8Factors factors() const { return {factor(), inverse()}; }
  /// What a product has instead of `value`.
  constexpr float rounded(float value) const {
    return static_cast<float>(float8_e4m3(value * factor())) * inverse();
  }

 private:
  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  }
};

/// What stands for a code, if the codes' scale has that inverse: a number of bf16, or one NaN for both codes
/// of one.
constexpr bfloat16 decoded_float8(std::uint8_t code, float inverse) {
  float8_e4m3 rounded;
  rounded.bits = code;
  bfloat16 value;
  value.bits = (code & 0x7fU) == 0x7fU
                   ? 0x7fc0U
                   : static_cast<std::uint16_t>(
                         std::bit_cast<std::uint32_t>(static_cast<float>(rounded) * inverse) >> 16);
  return value;
}

}  // namespace strata
