// Moving averages of parameters: the formula of torch.optim.swa_utils, in every format.
#include "optim/average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "optim/split_master.h"

namespace strata {
namespace {

constexpr std::size_t kWeights = 4096;
constexpr double kDecay = 0.9;

float weight_at(std::int64_t update, std::size_t element) {
  return std::sin(static_cast<float>(update) + 0.37F * static_cast<float>(element));
}

/// Averages in fp32, of masters in fp32.
struct Averaged {
  std::vector<float> masters = std::vector<float>(kWeights), averages = std::vector<float>(kWeights);

  void update(const AverageSettings& settings, std::int64_t number) {
    for (std::size_t i = 0; i < kWeights; ++i) masters[i] = weight_at(number, i);
    average(average_coefficients(settings, number, 1), state());
  }
  OptimizerState state() {
    OptimizerState state = {.precision = DType::fp32, .elements = kWeights, .master = masters.data()};
    state.of(Moment::ema) = averages.data();
    return state;
  }
};

// Invariant of numbers (Average.*): Averages begin as the weights after the first update. Each further one is
// nearer to the weights by 1 - decay.
TEST(Average, BeginsAsTheWeightsAndFollowsThem) {
  Averaged averaged;
  std::vector<double> expected;
  for (std::int64_t number = 1; number <= 20; ++number) {
    averaged.update({.decay = kDecay}, number);
    if (number == 1) expected.assign(averaged.masters.begin(), averaged.masters.end());
    for (std::size_t i = 0; i < kWeights; ++i) {
      expected[i] = kDecay * expected[i] + (1 - kDecay) * weight_at(number, i);
      ASSERT_NEAR(averaged.averages[i], expected[i], 1e-6) << number << ", " << i;
    }
    EXPECT_TRUE(number > 1 || averaged.averages == averaged.masters);
  }
}

TEST(Average, IsMadeEveryFewUpdatesFromTheFirstOn) {
  Averaged averaged, expected;
  for (std::int64_t number = 1; number <= 10; ++number) {
    averaged.update({.decay = kDecay, .every = 3}, number);
    if (number % 3 == 1) {
      for (std::size_t i = 0; i < kWeights; ++i) expected.masters[i] = weight_at(number, i);
      average(average_coefficients({.decay = kDecay}, number, 1), expected.state());
    }
    EXPECT_EQ(averaged.averages, expected.averages) << number;
  }
}

TEST(Average, WithoutADecayThereIsNone) {
  Averaged averaged;
  averaged.update({}, 1);
  EXPECT_EQ(averaged.averages, std::vector<float>(kWeights));
}

TEST(Average, OfASplitMasterIsThatOfTheMaster) {
  Averaged whole, split;
  std::vector<bfloat16> parameters(kWeights);
  std::vector<Remainder> remainders(kWeights);
  for (std::int64_t number = 1; number <= 3; ++number) {
    whole.update({.decay = kDecay}, number);
    for (std::size_t i = 0; i < kWeights; ++i) {
      const SplitMaster halves = split_master(weight_at(number, i));
      parameters[i] = halves.parameter;
      remainders[i] = halves.remainder;
    }
    OptimizerState state = split.state();
    state.precision = DType::bf16;
    state.format.master = MasterFormat::split;
    state.master = remainders.data();
    state.parameter = parameters.data();
    average(average_coefficients({.decay = kDecay}, number, 1), state);
    EXPECT_EQ(split.averages, whole.averages);
  }
}

TEST(Average, WithoutAMasterIsThatOfTheParameter) {
  Averaged whole, own;
  std::vector<bfloat16> parameters(kWeights);
  for (std::size_t i = 0; i < kWeights; ++i) parameters[i] = bfloat16(weight_at(1, i));
  std::ranges::transform(parameters, whole.masters.begin(), [](bfloat16 value) { return float(value); });
  OptimizerState state = own.state();
  state.precision = DType::bf16;
  state.format.master = MasterFormat::none;
  state.master = parameters.data();
  for (std::int64_t number = 1; number <= 3; ++number) {
    const AverageCoefficients step = average_coefficients({.decay = kDecay}, number, 1);
    average(step, whole.state());
    average(step, state);
    EXPECT_EQ(own.averages, whole.averages);
  }
}

TEST(Average, InBf16KeepsItsMeanAndHasTheSameBitsInParts) {
  Averaged exact;
  std::vector<bfloat16> rounded(kWeights), in_parts(kWeights);
  const AverageSettings slow = {.decay = 0.999};
  for (std::int64_t number = 1; number <= 300; ++number) {
    // Weights rise by less than half of a bf16's last bit.
    for (float& master : exact.masters) master = 1 + 1e-4F * static_cast<float>(number);
    const AverageCoefficients step = average_coefficients(slow, number, 1);
    average(step, exact.state());
    OptimizerState state = exact.state();
    state.format.average = MomentFormat::bf16;
    state.of(Moment::ema) = rounded.data();
    average(step, state);
    state.of(Moment::ema) = in_parts.data();
    for (const auto& [first, count] : {std::pair{0, 1000}, {1000, 3}, {1003, 3093}})
      average(step, state.part(first, count));
  }
  double mean = 0;
  for (std::size_t i = 0; i < kWeights; ++i) {
    mean += static_cast<float>(rounded[i]) / static_cast<double>(kWeights);
    EXPECT_EQ(rounded[i].bits, in_parts[i].bits);
  }
  // To the nearest it would never leave what it began as.
  const double risen = exact.averages.front() - 1.0001;
  EXPECT_GT(risen, 3e-3);
  EXPECT_NEAR(mean - 1.0001, risen, 0.1 * risen);
}

}  // namespace
}  // namespace strata
