// What a run says of its speed, on made-up times.
#include "engine/tools/report/step_time.h"

#include <gtest/gtest.h>

#include "engine/tools/report/train_report.h"

namespace strata {
namespace {

/// The steps of a run that paused after each of `stretches`: every step takes `first` if it begins a stretch
/// and `next` otherwise, and the last updates of a stretch take `drain`.
std::vector<StepReport> steps_of(const std::vector<int>& stretches, double first, double next, double drain) {
  std::vector<StepReport> steps;
  for (const int stretch : stretches) {
    for (int i = 0; i < stretch; ++i) {
      StepReport step;
      step.step = std::ssize(steps);
      step.begins = i == 0;
      step.seconds = i == 0 ? first : next;
      step.drain_seconds = i + 1 == stretch ? drain : 0;
      steps.push_back(step);
    }
  }
  return steps;
}

TEST(Median, IsTheMiddleValueOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({9, 1, 2, 4}), 3);
}

TEST(StepTime, OfThreeStepsIsNotThatOfTheLastUpdates) {
  const StepTime time = step_time(steps_of({3}, 70, 55, 20));
  EXPECT_EQ(time.seconds, 55);
  EXPECT_EQ(time.samples, 2);
  EXPECT_TRUE(time.overlapped);
}

TEST(StepTime, OfTwoStepsIsTheSecond) {
  EXPECT_EQ(step_time(steps_of({2}, 70, 55, 20)).seconds, 55);
}

TEST(StepTime, OfOneStepIsAllThatItTook) {
  const StepTime time = step_time(steps_of({1}, 40, 0, 20));
  EXPECT_EQ(time.seconds, 60);
  EXPECT_EQ(time.samples, 1);
  EXPECT_FALSE(time.overlapped);
}

TEST(StepTime, LeavesOutBeginningsAndDrainsBetweenValidations) {
  const StepTime time = step_time(steps_of({3, 3, 3}, 40, 55, 20));
  EXPECT_EQ(time.seconds, 55);
  EXPECT_EQ(time.samples, 6);
}

TEST(StepTime, OfARunThatValidatesAfterEachStepIsThatOfWholeStepsWithoutTheFirst) {
  std::vector<StepReport> steps = steps_of({1, 1, 1}, 40, 0, 20);
  steps[0].seconds = 400;  // it warms caches
  const StepTime time = step_time(steps);
  EXPECT_EQ(time.seconds, 60);
  EXPECT_EQ(time.samples, 2);
  EXPECT_FALSE(time.overlapped);
}

TEST(StepTime, OfNoStepsIsNothing) {
  EXPECT_EQ(step_time({}).samples, 0);
  EXPECT_EQ(step_time({}).seconds, 0);
}

TEST(SmoothedStepTime, ForgetsTheFirstStepAndThoseAfterPauses) {
  SmoothedStepTime smoothed;
  for (const StepReport& step : steps_of({3, 2}, 700, 50, 20)) smoothed.add(step);
  EXPECT_DOUBLE_EQ(smoothed.seconds(), 50);
}

TEST(SmoothedStepTime, FollowsARunThatPausesAfterEachStep) {
  SmoothedStepTime smoothed;
  for (const StepReport& step : steps_of({1}, 100, 0, 20)) smoothed.add(step);
  EXPECT_DOUBLE_EQ(smoothed.seconds(), 100);
  for (const StepReport& step : steps_of({1}, 50, 0, 20)) smoothed.add(step);
  EXPECT_DOUBLE_EQ(smoothed.seconds(), 90);
}

/// The figures of a report: 55 s per step, whatever the first step and the last updates took.
TEST(TrainReport, GradesOverlappedSteps) {
  Plan plan;
  ModelPlan& only = plan.models.emplace_back().emplace();
  only.training.program.loss_terms = 5500;
  only.flops = {.model = 55e9, .executed = 66e9};
  TrainResult result;
  result.steps = steps_of({3}, 70, 55, 20);
  const MachineRates rates{.flops_per_second = 1.2e9, .h2d_bytes_per_second = 2e9};
  const TrainReport report{.plan = plan,
                           .result = result,
                           .rates = rates,
                           .bound = {.seconds = 50},
                           .measured = MachineRates{.flops_per_second = 1e9, .h2d_bytes_per_second = 2e9}};
  EXPECT_EQ(report.median_step_seconds(), 55);
  EXPECT_EQ(report.tokens_per_second(), 100);
  EXPECT_DOUBLE_EQ(report.hfu(), 1);
  EXPECT_DOUBLE_EQ(report.mfu(), 1 / 1.2);
  const std::string text = summary_text(report, /*is_verbose=*/true);
  EXPECT_NE(text.find("100 tokens/s, 55.000 s per step, MFU 83.3 %"), std::string::npos) << text;
  EXPECT_NE(text.find("the median of 2;"), std::string::npos) << text;
  EXPECT_NE(text.find("20.000 s of updates after the last one"), std::string::npos) << text;
  EXPECT_NE(text.find("at best    50.000 s per step, limited by compute; it took 1.10 times that"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("its rates count: FLOP/s of products 1.200e+09, not 1.000e+09\n"), std::string::npos)
      << text;
  const nlohmann::json json = train_json(report);
  EXPECT_EQ(json["step_seconds"], nlohmann::json({70, 55, 55}));
  EXPECT_EQ(json["drain_seconds"], nlohmann::json({0, 0, 20}));
}

}  // namespace
}  // namespace strata
