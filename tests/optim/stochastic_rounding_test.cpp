#include "optim/stochastic_rounding.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "optim/update.h"

namespace strata {
namespace {

constexpr std::uint32_t kWords = 1 << 16;

TEST(StochasticRounding, IsExactInTheMeanOverAllRandomWords) {
  for (const float value :
       {1.0F, 1.003F, -1.003F, 3.14159F, 1e-3F, -7e20F, 0x1p-126F, 0x1.234p-130F, 1.9999F}) {
    double sum = 0;
    for (std::uint32_t random = 0; random < kWords; ++random)
      sum += static_cast<double>(static_cast<float>(round_stochastically(value, random)));
    EXPECT_EQ(sum, static_cast<double>(value) * kWords) << value;
  }
}

TEST(StochasticRounding, TakesOneOfTheTwoNeighbours) {
  for (const std::uint32_t random : {0U, 1U, 0x8000U, 0xffffU}) {
    EXPECT_EQ(round_stochastically(1.0F, random), bfloat16(1.0F)) << "a bf16 stays";
    const auto rounded = static_cast<float>(round_stochastically(1.005F, random));
    EXPECT_TRUE(rounded == 1 || rounded == 1 + 0x1p-7F) << rounded;
  }
}

TEST(StochasticRounding, LeavesZerosInfinitiesAndNaNs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t random : {0U, 0x8000U, 0xffffU}) {
    for (const float value : {0.0F, -0.0F, kInfinity, -kInfinity}) {
      const auto rounded = static_cast<float>(round_stochastically(value, random));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(rounded), std::bit_cast<std::uint32_t>(value));
    }
    for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU, 0x7fc00000U})
      EXPECT_TRUE(std::isnan(static_cast<float>(round_stochastically(std::bit_cast<float>(bits), random))))
          << bits;
  }
}

/// Correlation of two sequences of words.
template <typename First, typename Second>
double correlation(const First& first, const Second& second) {
  constexpr std::uint32_t kCount = 1 << 18;
  constexpr double kMiddle = 32767.5, kVariance = 65536.0 * 65536.0 / 12;
  double sum = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) sum += (first(i) - kMiddle) * (second(i) - kMiddle);
  return sum / (kCount * kVariance);
}

TEST(RandomBits, OfMomentsElementsUnitsAndUpdatesAreIndependent) {
  const auto low = [](std::uint32_t update, std::uint32_t unit, std::uint32_t shift) {
    return [=, key = rounding_key(update, unit)](std::uint32_t i) {
      return static_cast<double>(mix_bits(key + i + shift) & 0xffffU);
    };
  };
  const auto high = [key = rounding_key(5, 3)](std::uint32_t i) {
    return static_cast<double>(mix_bits(key + i) >> 16);
  };
  EXPECT_NEAR(correlation(low(5, 3, 0), low(5, 3, 0)), 1, 0.01);
  constexpr double kTolerance = 0.01;  // five deviations
  EXPECT_NEAR(correlation(low(5, 3, 0), high), 0, kTolerance);
  EXPECT_NEAR(correlation(low(5, 3, 0), low(5, 3, 1)), 0, kTolerance);
  EXPECT_NEAR(correlation(low(5, 3, 0), low(5, 4, 0)), 0, kTolerance);
  EXPECT_NEAR(correlation(low(5, 3, 0), low(6, 3, 0)), 0, kTolerance);
}

TEST(Bf16Moments, FollowAConstantGradientWhereRoundingToNearestWouldStop) {
  // Near its limit v grows by (1 - beta2)·(1 - v), less than half of a bf16's last bit from 1/2 on.
  constexpr std::int64_t kElements = 4096;
  constexpr int kUpdates = 3000;
  std::vector<float> master(kElements), gradient(kElements, 1);
  std::vector<bfloat16> exp_avg(kElements), exp_avg_sq(kElements);
  const OptimizerState state = {.precision = DType::fp32,
                                .format = {.moments = MomentFormat::bf16},
                                .elements = kElements,
                                .master = master.data(),
                                .moments = {exp_avg.data(), exp_avg_sq.data()},
                                .gradient = gradient.data()};
  bfloat16 nearest(0.0F);
  for (int number = 1; number <= kUpdates; ++number) {
    const UpdateCoefficients step =
        coefficients({.policy = {.settings = {.beta2 = 0.999F}}, .step = number, .seed = 1});
    update(step, state);
    nearest = bfloat16(step.adamw.beta2 * static_cast<float>(nearest) + step.adamw.one_minus_beta2);
  }
  const double expected = 1 - std::pow(0.999, kUpdates);
  double mean = 0;
  for (const bfloat16 value : exp_avg_sq) mean += static_cast<double>(static_cast<float>(value)) / kElements;
  EXPECT_NEAR(mean, expected, 0.002);
  EXPECT_LT(static_cast<float>(nearest), 0.8 * expected);
}

}  // namespace
}  // namespace strata
