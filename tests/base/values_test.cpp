// Sizes, element types, hashes, random numbers and word distance.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "engine/base/bytes.h"
#include "engine/base/dtype.h"
#include "engine/base/edit_distance.h"
#include "engine/base/hash.h"
#include "engine/base/random.h"

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
