#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace strata {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAreArray;
using ::testing::Matcher;
using ::testing::Pointwise;

LearningRateSchedule schedule(ScheduleType type) {
  return {.type = type,
          .peak = 0.4,
          .minimum_ratio = 0.25,
          .warmup = 3,
          .steps = 12,
          .power = 2,
          .decay_steps = 4,
          .timescale = 3,
          .points = {{0, 1}}};
}

std::vector<double> rates(const LearningRateSchedule& schedule, std::int64_t steps) {
  std::vector<double> rates;
  for (std::int64_t step = 0; step < steps; ++step) rates.push_back(learning_rate(schedule, step));
  return rates;
}

class AnySchedule : public ::testing::TestWithParam<ScheduleType> {};

TEST_P(AnySchedule, WarmsUpLinearlyToThePeak) {
  const LearningRateSchedule s = schedule(GetParam());
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 0.4);
}

TEST_P(AnySchedule, StartsAtThePeakWithoutWarmUp) {
  LearningRateSchedule s = schedule(GetParam());
  s.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.4);
}

TEST_P(AnySchedule, IsDefinedWhereTheWarmUpIsAsLongAsTheRun) {
  LearningRateSchedule s = schedule(GetParam());
  s.warmup = s.steps;
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.4 * 12 / 13);
  s.warmup = s.steps - 1;
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.4) << "one step is left, and there is nothing to fall from";
}

constexpr ScheduleType kFalling[] = {ScheduleType::linear, ScheduleType::cosine, ScheduleType::polynomial,
                                     ScheduleType::cosine_restarts, ScheduleType::wsd};

class FallingSchedule : public AnySchedule {};

TEST_P(FallingSchedule, ReachesItsEndInTheLastStepExactly) {
  for (const std::int64_t steps : {2, 3, 7, 100, 100'000}) {
    for (const std::int64_t warmup : {std::int64_t{0}, steps / 2 - 1}) {
      LearningRateSchedule s = schedule(GetParam());
      s.peak = 3e-4;
      s.minimum_ratio = 0.1;
      s.warmup = warmup;
      s.steps = steps;
      EXPECT_EQ(learning_rate(s, steps - 1), 0.1 * s.peak) << steps;
      EXPECT_EQ(learning_rate(s, warmup), s.peak);
      EXPECT_EQ(learning_rate(s, 2 * steps), 0.1 * s.peak) << "a run may be resumed behind its end";
      if (steps > warmup + 2) {
        EXPECT_GT(learning_rate(s, steps - 2), learning_rate(s, steps - 1));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FallingSchedule, ::testing::ValuesIn(kFalling));
INSTANTIATE_TEST_SUITE_P(Types, AnySchedule, ::testing::ValuesIn(kFalling));
INSTANTIATE_TEST_SUITE_P(OtherTypes, AnySchedule,
                         ::testing::Values(ScheduleType::constant, ScheduleType::inverse_sqrt,
                                           ScheduleType::piecewise, ScheduleType::plateau));

TEST(ConstantSchedule, StaysAtThePeak) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(ScheduleType::constant), 10), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(ScheduleType::constant), 1000), 0.4);
}

TEST(LinearSchedule, FallsByEqualPartsToTheMinimum) {
  const LearningRateSchedule s = schedule(ScheduleType::linear);
  EXPECT_NEAR(learning_rate(s, 5), 0.4 - 0.3 * 2 / 8, 1e-15);
  EXPECT_NEAR(learning_rate(s, 7), 0.25, 1e-15);
  EXPECT_NEAR(learning_rate(s, 10), 0.4 - 0.3 * 7 / 8, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 500), 0.1);
}

TEST(CosineSchedule, FallsAlongHalfACosineToTheMinimum) {
  const LearningRateSchedule s = schedule(ScheduleType::cosine);
  EXPECT_NEAR(learning_rate(s, 5), 0.1 + 0.3 * 0.853553390593274, 1e-12);
  EXPECT_NEAR(learning_rate(s, 7), 0.25, 1e-15);
  EXPECT_NEAR(learning_rate(s, 9), 0.1 + 0.3 * 0.146446609406726, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 500), 0.1);
}

TEST(PolynomialSchedule, FallsByThePowerOfWhatIsLeft) {
  LearningRateSchedule s = schedule(ScheduleType::polynomial);
  EXPECT_NEAR(learning_rate(s, 5), 0.1 + 0.3 * 0.75 * 0.75, 1e-15);
  EXPECT_NEAR(learning_rate(s, 7), 0.1 + 0.3 * 0.25, 1e-15);
  s.power = 1;
  EXPECT_EQ(rates(s, 12), rates(schedule(ScheduleType::linear), 12));
}

TEST(CosineRestarts, BeginEveryCycleAtThePeakAndEndItAtTheMinimum) {
  LearningRateSchedule s = schedule(ScheduleType::cosine_restarts);
  EXPECT_EQ(rates(s, 12), rates(schedule(ScheduleType::cosine), 12)) << "one cycle";
  s.cycles = 3;  // of 3 steps
  EXPECT_THAT(rates(s, 14), ElementsAreArray(std::vector<Matcher<double>>{
                                DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.3),            // warm-up
                                DoubleEq(0.4), DoubleNear(0.25, 1e-15), DoubleEq(0.1),  //
                                DoubleEq(0.4), DoubleNear(0.25, 1e-15), DoubleEq(0.1),  //
                                DoubleEq(0.4), DoubleNear(0.25, 1e-15), DoubleEq(0.1),  //
                                DoubleEq(0.1), DoubleEq(0.1)}));
}

TEST(CosineRestarts, ShareOutStepsThatDoNotDivide) {
  LearningRateSchedule s = schedule(ScheduleType::cosine_restarts);
  for (s.cycles = 1; s.cycles <= 9; ++s.cycles) {
    int peaks = 0;
    for (std::int64_t step = 3; step < 12; ++step) peaks += learning_rate(s, step) == s.peak ? 1 : 0;
    EXPECT_EQ(peaks, s.cycles < 9 ? s.cycles : 8) << "the last of nine cycles is the last step alone";
    EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.1);
  }
  s.cycles = 1'000'000;
  EXPECT_EQ(learning_rate(s, 10), s.peak);
  s.steps = std::int64_t{1} << 40;
  EXPECT_GT(learning_rate(s, s.steps / 3), 0);
}

TEST(WarmupStableDecay, StaysAtThePeakUntilItsLastSteps) {
  LearningRateSchedule s = schedule(ScheduleType::wsd);
  EXPECT_THAT(rates(s, 13),
              Pointwise(DoubleEq(), {0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.325, 0.25, 0.175, 0.1, 0.1}));
  s.shape = DecayShape::cosine;
  EXPECT_NEAR(learning_rate(s, 8), 0.1 + 0.3 * 0.853553390593274, 1e-12);
  s.shape = DecayShape::sqrt;
  EXPECT_NEAR(learning_rate(s, 8), 0.1 + 0.3 * 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 10), 0.1 + 0.3 * (1 - std::sqrt(0.75)), 1e-15);
  s.decay_steps = 100;
  EXPECT_EQ(learning_rate(s, 3), s.peak) << "it does not reach into the warm-up";
  EXPECT_LT(learning_rate(s, 4), s.peak);
}

TEST(InverseSqrtSchedule, FallsByTheRootOfTheSteps) {
  LearningRateSchedule s = schedule(ScheduleType::inverse_sqrt);  // as transformers' with timescale 3
  EXPECT_NEAR(learning_rate(s, 6), 0.4 / std::sqrt(2), 1e-15);
  EXPECT_NEAR(learning_rate(s, 12), 0.2, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.1) << "never below the minimum";
  s.minimum_ratio = 0;
  EXPECT_NEAR(learning_rate(s, 303), 0.4 / std::sqrt(101), 1e-15);
}

TEST(PiecewiseSchedule, IsALineBetweenItsPoints) {
  LearningRateSchedule s = schedule(ScheduleType::piecewise);
  s.points = {{1, 0.5}, {5, 1}, {8, 1}, {9, 0.25}};
  EXPECT_THAT(rates(s, 12), Pointwise(DoubleEq(), {0.1 * 0.5, 0.2 * 0.5, 0.3 * 0.625, 0.4 * 0.75, 0.4 * 0.875,
                                                   0.4, 0.4, 0.4, 0.4, 0.1, 0.1, 0.1}));
}

TEST(PlateauSchedule, FallsByItsFactorToTheMinimumAlsoInTheWarmUp) {
  LearningRateSchedule s = schedule(ScheduleType::plateau);
  s.plateau.factor = 0.6;
  EXPECT_DOUBLE_EQ(learning_rate(s, 10, {.falls = 1}), 0.4 * 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1, {.falls = 1}), 0.2 * 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10, {.falls = 2}), 0.4 * 0.6 * 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10, {.falls = 3}), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10, {.falls = 1'000'000}), 0.1);
}

}  // namespace
}  // namespace strata
