#include "optim/gradient_norm.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/task_arena.h"
#include "tests/support/highway_target.h"

namespace strata {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normals(std::size_t elements) {
  const CounterRandom random(3, 2);
  std::vector<float> result(elements);
  for (std::size_t i = 0; i < elements; ++i) result[i] = random.normal(i);
  return result;
}

double plain_sum(const std::vector<float>& values, std::size_t first) {
  long double sum = 0;
  for (std::size_t i = first; i < values.size(); ++i) sum += static_cast<long double>(values[i]) * values[i];
  return static_cast<double>(sum);
}

class SumOfSquares : public ::testing::TestWithParam<std::size_t> {};

TEST_P(SumOfSquares, OfFp32IsThePlainSumAtAnyAlignment) {
  for (std::size_t first : {0, 1, 3}) {
    const auto values = normals(first + GetParam());
    const double expected = plain_sum(values, first);
    EXPECT_NEAR(sum_of_squares(values.data() + first, DType::fp32, static_cast<std::int64_t>(GetParam())),
                expected, 1e-13 * expected);
  }
}

template <class T>
void expect_plain_sum_of_rounded(DType dtype, std::size_t elements) {
  auto values = normals(elements);
  std::vector<T> rounded;
  for (float& value : values) {
    rounded.emplace_back(value);
    value = static_cast<float>(rounded.back());
  }
  const double expected = plain_sum(values, 0);
  EXPECT_NEAR(sum_of_squares(rounded.data(), dtype, static_cast<std::int64_t>(elements)), expected,
              1e-13 * expected);
}

TEST_P(SumOfSquares, OfShorterTypesIsThePlainSumOfTheRoundedValues) {
  expect_plain_sum_of_rounded<bfloat16>(DType::bf16, GetParam());
  expect_plain_sum_of_rounded<float16>(DType::fp16, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, SumOfSquares,
                         ::testing::Values(0, 1, 31, 32, 33, 4095, 4097, 65'536, 65'537, 300'007));

// Invariant: Placement changes no result.
TEST(SumOfSquaresOrder, AnyNumberOfThreadsGivesTheSameBits) {
  const auto values = normals(700'001);
  const auto with_threads = [&](int threads) {
    double sum = 0;
    TaskArena(threads).execute(
        [&] { sum = sum_of_squares(values.data(), DType::fp32, static_cast<std::int64_t>(values.size())); });
    return sum;
  };
  const double one = with_threads(1);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(with_threads(2), one);
    EXPECT_EQ(with_threads(4), one);
  }
}

TEST(SumOfSquaresOrder, EveryTargetGivesTheSameBits) {
  const auto values = normals(200'003);
  std::vector<bfloat16> bf16;
  std::vector<float16> fp16;
  for (const float value : values) {
    bf16.emplace_back(value);
    fp16.emplace_back(value * 1e-5F);  // many of them subnormal
  }
  const auto sums = [&] {
    return std::array{sum_of_squares(values.data(), DType::fp32, 200'003),
                      sum_of_squares(bf16.data(), DType::bf16, 200'003),
                      sum_of_squares(fp16.data(), DType::fp16, 200'003)};
  };
  const auto expected = sums();
  for (const std::int64_t target : highway_targets()) {
    const OnHighwayTarget only(target);
    EXPECT_EQ(sums(), expected) << hwy::TargetName(target);
  }
}

TEST(SumOfSquaresOrder, LargeValuesDoNotOverflowAndSmallOnesDoNotVanish) {
  const std::vector<float> values = {3e38F, 1e-30F};
  EXPECT_NEAR(sum_of_squares(values.data(), DType::fp32, 1), 9e76, 1e70);
  EXPECT_NEAR(sum_of_squares(values.data() + 1, DType::fp32, 1), 1e-60, 1e-66);
}

TEST(SumOfSquaresOrder, OneInfinityOrNaNAnywhereReachesTheNorm) {
  for (std::size_t place : {0UL, 17UL, 70'000UL, 99'999UL}) {
    auto values = normals(100'000);
    values[place] = -kInfinity;
    EXPECT_EQ(sum_of_squares(values.data(), DType::fp32, 100'000), kInfinity);
    values[place] = kNaN;
    EXPECT_TRUE(std::isnan(sum_of_squares(values.data(), DType::fp32, 100'000)));
  }
}

TEST(ClipFactor, LeavesSmallNormsAlone) {
  EXPECT_EQ(clip_factor(0, 1), 1.0F);
  EXPECT_EQ(clip_factor(0.999, 1), 1.0F);
}

TEST(ClipFactor, BringsLargeNormsToTheLimit) {
  EXPECT_FLOAT_EQ(clip_factor(4, 1), static_cast<float>(1 / (4 + 1e-6)));
  EXPECT_FLOAT_EQ(clip_factor(4, 0.5), static_cast<float>(0.5 / (4 + 1e-6)));
}

TEST(ClipFactor, OfZeroClipNormIsOne) {
  EXPECT_EQ(clip_factor(1e9, 0), 1.0F);
}

TEST(ClipFactor, StaysNaNForANaNNorm) {
  EXPECT_TRUE(std::isnan(clip_factor(kNaN, 1)));
}

}  // namespace
}  // namespace strata
