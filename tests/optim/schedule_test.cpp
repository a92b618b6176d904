#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

LearningRateSchedule schedule(ScheduleType type) {
  return {.type = type, .peak = 0.4, .minimum_ratio = 0.25, .warmup = 3, .steps = 12};
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

TEST_P(AnySchedule, ReachesItsEndInTheLastStepExactly) {
  for (const std::int64_t steps : {2, 3, 7, 100, 100'000}) {
    for (const std::int64_t warmup : {std::int64_t{0}, steps / 2 - 1}) {
      const LearningRateSchedule s{
          .type = GetParam(), .peak = 3e-4, .minimum_ratio = 0.1, .warmup = warmup, .steps = steps};
      EXPECT_EQ(learning_rate(s, steps - 1), s.type == ScheduleType::constant ? s.peak : 0.1 * s.peak)
          << steps;
      EXPECT_EQ(learning_rate(s, warmup), s.peak);
      if (s.type != ScheduleType::constant && steps > warmup + 2) {
        EXPECT_GT(learning_rate(s, steps - 2), learning_rate(s, steps - 1));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AnySchedule,
                         ::testing::Values(ScheduleType::constant, ScheduleType::linear,
                                           ScheduleType::cosine));

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

}  // namespace
}  // namespace strata
