// Sizes, element types, hashes, random numbers and word distance.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/edit_distance.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/storage_type.h"

namespace strata {
namespace {

TEST(Bytes, SizesAreReadInDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("2GiB"), 2 * GiB);
  EXPECT_EQ(parse_bytes("512MB"), 512'000'000);
  EXPECT_EQ(parse_bytes("1.5 kB"), 1500);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("unlimited"), kUnlimited);
}

TEST(Bytes, WhatIsNotASizeIsRefused) {
  for (const char* text : {"", "GiB", "-1GiB", "1XB", "1.2.3MB", "1e3MB", "99999999999TiB"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(Bytes, SizesAreWrittenExactlyAsTheyAreRead) {
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, 4 * KiB, 3 * MiB, 5 * GiB, GiB + 4096, kUnlimited})
    EXPECT_EQ(parse_bytes(exact_bytes(bytes)), bytes);
  EXPECT_EQ(exact_bytes(3 * MiB), "3MiB");
}

TEST(Bytes, SizesArePrintedInBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(GiB + GiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(kUnlimited), "unlimited");
}

TEST(Bytes, AligningRoundsUp) {
  EXPECT_EQ(align_up(0), 0);
  EXPECT_EQ(align_up(1), 64);
  EXPECT_EQ(align_up(64), 64);
  EXPECT_EQ(align_up(65, 8), 72);
}

TEST(Bfloat16, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);             // a tie, down to even
  EXPECT_EQ(bfloat16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);         // a tie, up to even
  EXPECT_EQ(bfloat16(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);  // above the tie
  EXPECT_EQ(bfloat16(-0.0F).bits, 0x8000);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds to infinity
}

TEST(Bfloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto number = static_cast<float>(value);
    if (std::isnan(number)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(number))));
    } else {
      EXPECT_EQ(bfloat16(number).bits, bits);
    }
  }
}

float16 half_of(std::uint32_t bits) {
  float16 half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

constexpr std::uint32_t kHalfInfinity = 0x7c00;

/// The value of a finite non-negative half, and 2^16 for infinity's bits, by the definition of binary16.
double value_of_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10);
  const auto fraction = static_cast<double>(bits & 0x3ff);
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryPatternDecodesToItsValue) {
  for (std::uint32_t bits = 0; bits < kHalfInfinity; ++bits) {
    EXPECT_EQ(static_cast<float>(half_of(bits)), value_of_half(bits));
    EXPECT_EQ(static_cast<float>(half_of(bits | 0x8000)), -value_of_half(bits));
  }
  EXPECT_TRUE(std::signbit(static_cast<float>(half_of(0x8000))));
  EXPECT_EQ(static_cast<float>(half_of(0x7c00)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(half_of(0xfc00)), -std::numeric_limits<float>::infinity());
  for (std::uint32_t payload = 1; payload < 0x400; ++payload) {
    EXPECT_TRUE(std::isnan(static_cast<float>(half_of(0x7c00 | payload))));
    EXPECT_TRUE(std::isnan(static_cast<float>(half_of(0xfc00 | payload))));
  }
}

TEST(Float16, RoundsToNearestWithTiesToEvenBetweenAllNeighbours) {
  for (std::uint32_t low = 0; low < kHalfInfinity; ++low) {  // the last pair is the largest half and infinity
    const std::uint32_t even = low + low % 2;
    const auto value = static_cast<float>(value_of_half(low));
    const auto middle = static_cast<float>((value_of_half(low) + value_of_half(low + 1)) / 2);
    for (const float sign : {1.0F, -1.0F}) {
      const std::uint32_t bit = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(float16(sign * value).bits, bit | low);
      EXPECT_EQ(float16(sign * std::nextafter(middle, 0.0F)).bits, bit | low);
      EXPECT_EQ(float16(sign * middle).bits, bit | even);
      EXPECT_EQ(float16(sign * std::nextafter(middle, 1e5F)).bits, bit | (low + 1));
    }
  }
}

TEST(Float16, WhatIsTooLargeBecomesInfinityAndWhatIsTooSmallZero) {
  for (const float value : {65520.0F, 65536.0F, 1e30F, std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(float16(value).bits, 0x7c00);
    EXPECT_EQ(float16(-value).bits, 0xfc00);
  }
  for (const float value : {0.0F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(float16(value).bits, 0);
    EXPECT_EQ(float16(-value).bits, 0x8000);
  }
}

TEST(Float16, NaNsStayQuietNaNs) {
  for (const std::uint32_t word :
       {0x7f800001U, 0x7f801fffU, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    const float16 half(std::bit_cast<float>(word));
    EXPECT_EQ(half.bits & 0x7e00, 0x7e00);
    EXPECT_EQ(half.bits >> 15, word >> 31);
  }
}

TEST(StorageType, IsTheOneOfTheDType) {
  const auto size = [](DType dtype) {
    return with_storage_type(dtype, [](auto element) { return sizeof(element); });
  };
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    EXPECT_EQ(static_cast<Bytes>(size(dtype)), size_of(dtype));
  }
  const auto rounded = [](DType dtype) {
    return with_storage_type(dtype, []<typename T>(T) { return static_cast<float>(T(1.0F + 0x1p-9F)); });
  };
  EXPECT_EQ(rounded(DType::fp32), 1.0F + 0x1p-9F);
  EXPECT_EQ(rounded(DType::fp16), 1.0F + 0x1p-9F);
  EXPECT_EQ(rounded(DType::bf16), 1.0F);
}

TEST(Hash, PiecesHashAsTheWhole) {
  StreamingHash hash;
  const std::string text = "a sequence of spans as if they were one";
  hash.update(std::as_bytes(std::span(text).first(7)));
  hash.update(std::as_bytes(std::span(text).subspan(7)));
  EXPECT_EQ(hash.digest(), hash_text(text));
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span(text))), hash_text(text));
}

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hex(hash_text("")), "2d06800538d394c2");  // from the xxHash project's test vectors, seed 0
}

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Random, WordsArePhilox) {
  const auto zeros = CounterRandom(0, 0).words(0);
  EXPECT_EQ(zeros, (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const auto ones = CounterRandom(~0ULL, ~0ULL).words(~0ULL);
  EXPECT_EQ(ones, (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, NormalsHaveTheMomentsOfTheNormalDistribution) {
  const CounterRandom random(7, 3);
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.03);
  EXPECT_NEAR(fourth / kCount, 3, 0.2);
}

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("hidden_size", "hiden_size"), 1U);
}

}  // namespace
}  // namespace strata
