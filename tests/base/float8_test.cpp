// Numbers of e4m3 and their scale, held against the format's definition for every code and every bf16.
#include "base/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace strata {
namespace {

constexpr std::uint32_t kLargestCode = 0x7e;

float8_e4m3 coded(std::uint32_t bits) {
  float8_e4m3 value;
  value.bits = static_cast<std::uint8_t>(bits);
  return value;
}

/// By the format's definition: (-1)^sign · 2^(exponent - 7) · 1.mantissa, or 2^-6 · 0.mantissa.
double defined(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 3 & 0xfU, mantissa = bits & 7U;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa / 8.0, -6)
                                         : std::ldexp(1 + mantissa / 8.0, static_cast<int>(exponent) - 7);
  return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

// Invariant of numbers (Float8*.*): FP8 rounds alike everywhere. Every code and every halfway case is that of
// the definition of the format. The reference, CPU and CUDA kernels round every bf16 to the same bits.
// Gradients stay near those of bf16.
TEST(Float8, EveryCodeIsTheNumberThatItsDefinitionSays) {
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const auto number = static_cast<float>(coded(bits));
    if ((bits & 0x7fU) > kLargestCode) {
      EXPECT_TRUE(std::isnan(number));
      EXPECT_TRUE(std::isnan(static_cast<float>(float8_e4m3(number))));
      continue;
    }
    EXPECT_EQ(number, defined(bits)) << bits;
    EXPECT_EQ(float8_e4m3(number).bits, bits);
  }
  EXPECT_EQ(defined(kLargestCode), 448);
}

TEST(Float8, RoundsToTheNearerNeighbourAndHalfwayToTheEvenOne) {
  for (std::uint32_t bits = 0; bits < kLargestCode; ++bits) {
    const auto halfway = static_cast<float>((defined(bits) + defined(bits + 1)) / 2);
    for (const std::uint32_t sign : {0U, 0x80U}) {
      const float signed_one = sign == 0 ? 1 : -1;
      const auto code_of = [&](float magnitude) { return float8_e4m3(signed_one * magnitude).bits; };
      EXPECT_EQ(code_of(halfway), sign | (bits + (bits & 1U))) << bits;
      EXPECT_EQ(code_of(std::nextafter(halfway, 0.0F)), sign | bits) << bits;
      EXPECT_EQ(code_of(std::nextafter(halfway, 449.0F)), sign | (bits + 1)) << bits;
    }
  }
}

TEST(Float8, EndsAt448AndMakesNoNumberOfAnInfinity) {
  for (const float large : {448.0F, 464.0F, 465.0F, 480.0F, 1e30F, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(float8_e4m3(large).bits, kLargestCode) << large;
    EXPECT_EQ(float8_e4m3(-large).bits, 0x80U | kLargestCode) << large;
  }
  for (const float none : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(float8_e4m3(none).bits, 0x7f);
    EXPECT_EQ(float8_e4m3(-none).bits, 0xff);
  }
}

TEST(Float8, OfNumbersBelowItsSmallestIsZeroOrThat) {
  EXPECT_EQ(float8_e4m3(0x1p-10F).bits, 0);  // halfway, and 0 is even
  EXPECT_EQ(float8_e4m3(0x1.000002p-10F).bits, 1);
  EXPECT_EQ(float8_e4m3(-std::numeric_limits<float>::denorm_min()).bits, 0x80);
}

/// For every largest magnitude that a tensor of bf16 can have.
TEST(Float8Scale, IsTheLargestPowerOfTwoThatFits) {
  std::int64_t unlimited = 0;
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    bfloat16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto largest = static_cast<float>(value);
    const Float8Scale scale = Float8Scale::of(largest);
    EXPECT_EQ(scale.factor(), std::ldexp(1.0F, scale.exponent));
    EXPECT_EQ(scale.factor() * scale.inverse(), 1.0F);
    if (scale.exponent == 117 || scale.exponent == -119) continue;  // its limits
    EXPECT_LE(largest * scale.factor(), 448) << largest;
    EXPECT_GT(2.0F * largest * scale.factor(), 448) << largest;
    ++unlimited;
  }
  EXPECT_GT(unlimited, 0x7f80 * 9 / 10);
}

TEST(Float8Scale, GivesNumbersThatBf16HasAsNormalOnes) {
  for (const float largest : {0.0F, 1e-40F, 0x1p-126F, 1.0F, 3.38e38F}) {
    const Float8Scale scale = Float8Scale::of(largest);
    for (std::uint32_t bits = 1; bits <= kLargestCode; ++bits) {
      const float number = static_cast<float>(coded(bits)) * scale.inverse();
      EXPECT_EQ(static_cast<float>(bfloat16(number)), number) << largest;
      EXPECT_TRUE(std::isnormal(number)) << largest << " " << number;
      EXPECT_EQ(scale.rounded(number), number) << largest;
    }
  }
}

}  // namespace
}  // namespace strata
