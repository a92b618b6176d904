#include "optim/moment_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "optim/update.h"
#include "tests/support/highway_target.h"
#include "tests/support/state_types.h"

namespace strata {
namespace {

constexpr std::array kBothCodes = {MomentCodes::with_sign, MomentCodes::squares};

/// Numbers of many magnitudes, and zeros.
std::vector<float> numbers(MomentCodes codes, std::size_t count, int magnitudes = 30) {
  const CounterRandom random(5, 1);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = random.normal(3 * i);
    const int power = -static_cast<int>(random.integer(3 * i + 1) % static_cast<unsigned>(magnitudes));
    values[i] = i % 37 == 0 ? 0.0F : std::ldexp(codes == MomentCodes::squares ? value * value : value, power);
  }
  return values;
}

/// Names the words that round a moment, and its number.
struct RandomWords {
  std::uint32_t counter = 0;
  int number = 0;
};

std::vector<std::byte> encoded(MomentCodes codes, std::span<const float> values,
                               const std::optional<RandomWords>& random = std::nullopt,
                               decltype(&encode_moment) encode = &encode_moment) {
  std::vector<std::byte> blocks(static_cast<std::size_t>(coded_bytes(std::ssize(values))));
  std::vector<std::uint32_t> words(values.size());
  if (random) hash_elements(random->counter, words);
  encode(codes, values, blocks.data(),
         random ? std::optional(MomentRounding{words.data(), random->number}) : std::nullopt);
  return blocks;
}

std::vector<float> decoded(MomentCodes codes, std::span<const std::byte> blocks, std::size_t count) {
  std::vector<float> values(count);
  decode_moment(codes, blocks.data(), 0, values);
  return values;
}

bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>,
                            std::bit_cast<std::uint32_t, float>);
}

class MomentCodesOnEachTarget : public ::testing::TestWithParam<std::int64_t> {
 private:
  OnHighwayTarget target_{GetParam()};
};

// Invariant of numbers (MomentCodes*.*): Moments of 8 bits round in the mean to what they were. A number that
// was coded once keeps its bits, and every instruction set gives the bits of the scalar code.
TEST_P(MomentCodesOnEachTarget, HaveTheReferenceBitsAtEverySize) {
  for (const MomentCodes codes : kBothCodes) {
    for (const std::size_t count : {0, 1, 15, 16, 17, 63, 64, 65, 200, 5000}) {
      const std::vector<float> values = numbers(codes, count);
      for (const std::optional<RandomWords>& random :
           {std::optional<RandomWords>(), std::optional(RandomWords{0xfffffff0U, 0}),
            std::optional(RandomWords{77, 1}), std::optional(RandomWords{78, 2})}) {
        const std::vector<std::byte> fast = encoded(codes, values, random);
        ASSERT_EQ(fast, encoded(codes, values, random, &encode_moment_reference)) << count;
        for (const std::size_t first : {std::size_t{0}, count / 3, count}) {
          std::vector<float> out(count - first), expected(count - first);
          decode_moment(codes, fast.data(), static_cast<std::int64_t>(first), out);
          decode_moment_reference(codes, fast.data(), static_cast<std::int64_t>(first), expected);
          EXPECT_TRUE(have_same_bits(out, expected)) << count << " from " << first;
        }
      }
    }
  }
}

TEST_P(MomentCodesOnEachTarget, EveryCodeStandsForItsNumberAtEveryExponent) {
  for (const MomentCodes codes : kBothCodes) {
    for (unsigned exponent = 0; exponent < 256; ++exponent) {
      std::vector<std::byte> blocks(4 * static_cast<std::size_t>(kCodedBlockBytes));
      for (std::size_t i = 0; i < 256; ++i)
        blocks[static_cast<std::size_t>(coded_offset(static_cast<std::int64_t>(i))) + i % 64] = std::byte(i);
      for (std::size_t block = 0; block < 4; ++block)
        for (std::size_t group = 0; group < 4; ++group) blocks[68 * block + 64 + group] = std::byte(exponent);
      std::vector<float> plain(256);
      decode_moment_reference(codes, blocks.data(), 0, plain);
      const std::vector<float> fast = decoded(codes, blocks, 256);
      for (std::size_t i = 0; i < 256; ++i) {
        if (exponent == 255) {
          EXPECT_TRUE(std::isnan(fast[i]) && std::isnan(plain[i]));
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(fast[i]), std::bit_cast<std::uint32_t>(plain[i])) << i;
          ASSERT_TRUE(std::isfinite(plain[i]));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MomentCodesOnEachTarget, ::testing::ValuesIn(highway_targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

/// The formats' definition: the numbers of a group whose largest lies in [1, 2), from the largest down.
TEST(MomentCodes, AreFloatsOfTheirBitsOfMantissa) {
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0x7f, 127), 1.9375F);
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0x70, 127), 1.0F);
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0xf1, 127), -1.0625F);
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0x10, 127), 0x1p-6F);
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0x0f, 127), 0x1p-6F * 15 / 16);
  EXPECT_EQ(decode_number<MomentCodes::with_sign>(0x01, 127), 0x1p-10F);
  EXPECT_EQ(decode_number<MomentCodes::squares>(0xff, 127), 1.9375F);
  EXPECT_EQ(decode_number<MomentCodes::squares>(0xf0, 127), 1.0F);
  EXPECT_EQ(decode_number<MomentCodes::squares>(0x10, 127), 0x1p-14F);
  EXPECT_EQ(decode_number<MomentCodes::squares>(0x01, 127), 0x1p-18F);
}

TEST(MomentCodes, OfNearestNumbersLieWithinHalfAStepAndKeepTheirBitsFromThenOn) {
  for (const MomentCodes codes : kBothCodes) {
    const bool has_sign = codes == MomentCodes::with_sign;
    const std::vector<float> values = numbers(codes, 64 * 100);
    const std::vector<std::byte> blocks = encoded(codes, values);
    const std::vector<float> rounded = decoded(codes, blocks, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float largest = 0;
      for (std::size_t k = i / 16 * 16; k < i / 16 * 16 + 16; ++k)
        largest = std::max(largest, std::abs(values[k]));
      int power = 0;
      std::frexp(largest, &power);
      const float smallest_step = std::ldexp(1.0F, power - (has_sign ? 10 : 18));
      const float half_step = std::abs(values[i]) / 32;
      if (!has_sign) {
        EXPECT_EQ(rounded[i] > 0, values[i] > 0) << i;
      }
      EXPECT_LE(std::abs(rounded[i] - values[i]), std::max(half_step, smallest_step))
          << i << " " << values[i];
    }
    for (const RandomWords& random : {RandomWords{1, 0}, RandomWords{2, 1}, RandomWords{3, 2}}) {
      const std::vector<float> again = decoded(codes, encoded(codes, rounded, random), values.size());
      EXPECT_TRUE(have_same_bits(again, rounded));
    }
  }
}

TEST(MomentCodes, RoundToTheirNumbersInTheMean) {
  for (const MomentCodes codes : kBothCodes) {
    std::vector<float> values = numbers(codes, 64, 4);
    std::vector<double> means(values.size());
    constexpr int kTimes = 4000;
    for (int time = 0; time < kTimes; ++time) {
      const RandomWords random = {mix_bits(static_cast<std::uint32_t>(time)), time % 3};
      const std::vector<float> rounded = decoded(codes, encoded(codes, values, random), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) means[i] += double{rounded[i]} / kTimes;
    }
    for (std::size_t group = 0; group < values.size(); group += 16) {
      const auto largest = *std::ranges::max_element(std::span(values).subspan(group, 16), {},
                                                     [](float value) { return std::abs(value); });
      for (std::size_t i = group; i < group + 16; ++i) {
        // Five deviations of a mean of steps at most a 16th of the largest number.
        EXPECT_NEAR(means[i], values[i], 5 * std::abs(largest) / 16 / 2 / std::sqrt(kTimes)) << i;
      }
    }
  }
}

TEST(MomentCodes, AreZerosOfZeros) {
  const std::vector<float> zeros(130);
  for (const MomentCodes codes : kBothCodes) {
    for (const std::byte garbage : {std::byte{0}, std::byte{0xff}}) {
      std::vector<std::byte> blocks(static_cast<std::size_t>(coded_bytes(130)), garbage);
      encode_moment(codes, zeros, blocks.data());
      EXPECT_EQ(decoded(codes, blocks, 192), std::vector<float>(192));
    }
    const std::vector<std::byte> never_written(static_cast<std::size_t>(coded_bytes(130)));
    EXPECT_EQ(decoded(codes, never_written, 130), zeros);
  }
}

TEST(MomentCodes, MakeOfAGroupThatIsNotFiniteNaNsAndLeaveTheOthers) {
  for (const MomentCodes codes : kBothCodes) {
    for (const float special :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values = numbers(codes, 64);
      const std::vector<float> before = decoded(codes, encoded(codes, values), 64);
      values[21] = special;
      const std::vector<float> after = decoded(codes, encoded(codes, values, RandomWords{}), 64);
      EXPECT_TRUE(
          std::ranges::all_of(std::span(after).subspan(16, 16), [](float x) { return std::isnan(x); }));
      EXPECT_FALSE(std::ranges::any_of(std::span(after).first(16), [](float x) { return std::isnan(x); }));
      const std::vector<float> nearest = decoded(codes, encoded(codes, values), 64);
      EXPECT_TRUE(have_same_bits(std::span(nearest).first(16), std::span(before).first(16)));
      EXPECT_TRUE(have_same_bits(std::span(nearest).subspan(32), std::span(before).subspan(32)));
    }
  }
}

TEST(MomentCodes, HashElementsAsScalarsDo) {
  for (const std::size_t count : {0, 1, 63, 64, 200}) {
    std::vector<std::uint32_t> words(count);
    hash_elements(0xffffffc0U, words);
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(words[i], mix_bits(0xffffffc0U + i));
  }
}

TEST(MomentCodes, OfExtremeFloatsAreFinite) {
  const std::vector<float> extremes = {
      1.9e38F, -3e38F, std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min(), 1e-30F,
      -1e-20F, 1.0F};
  for (const MomentCodes codes : kBothCodes) {
    for (const float one : extremes) {
      for (const float other : extremes) {
        const std::vector<float> rounded =
            decoded(codes, encoded(codes, std::vector{one, other}, RandomWords{3, 0}), 2);
        for (const float value : rounded) EXPECT_TRUE(std::isfinite(value)) << one << ", " << other;
      }
    }
  }
}

TEST(CodedMoments, FollowAConstantGradientWhereRoundingToNearestWouldStop) {
  constexpr std::int64_t kElements = 4096;
  constexpr int kUpdates = 3000;
  std::vector<float> master(kElements), gradient(kElements, 1);
  std::vector<std::byte> exp_avg(static_cast<std::size_t>(coded_bytes(kElements))),
      exp_avg_sq(exp_avg.size());
  const OptimizerState state = {.precision = DType::fp32,
                                .format = {.moments = MomentFormat::coded},
                                .elements = kElements,
                                .master = master.data(),
                                .moments = {exp_avg.data(), exp_avg_sq.data()},
                                .gradient = gradient.data()};
  for (int number = 1; number <= kUpdates; ++number)
    update(coefficients({.policy = {.settings = {.beta2 = 0.999F}}, .step = number, .seed = 1}), state);
  double mean = 0;
  for (const float value : decoded(MomentCodes::squares, exp_avg_sq, kElements))
    mean += double{value} / kElements;
  EXPECT_NEAR(mean, 1 - std::pow(0.999, kUpdates), 0.01);
}

}  // namespace
}  // namespace strata
