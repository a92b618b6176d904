// optimizer.schedule.type plateau: the learning rate falls when the held-out loss improves no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "engine/config/run_config.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::run_ranks;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// No loss is ever a tenth of the first one, so only the validation at step 2 is an improvement.
RunConfig waiting(const TemporaryFolder& folder) {
  RunConfig config = test::tiny_run(folder.path());
  config.train.steps = 12;
  config.train.validate_every = 2;
  config.optimizer.learning_rate = 0.01;
  config.schedule = {
      .type = ScheduleType::plateau, .minimum_ratio = 0.05, .factor = 0.25, .patience = 1, .threshold = 0.9};
  return config;
}

/// Behind the validations at steps 6 and 10, which are the second in a row without an improvement.
const std::vector<double> kRates = {0.01,   0.01,   0.01,   0.01,   0.01,     0.01,
                                    0.0025, 0.0025, 0.0025, 0.0025, 0.000625, 0.000625};

std::vector<double> rates_of(const TrainResult& result) {
  std::vector<double> rates;
  for (const StepReport& step : result.steps) rates.push_back(step.learning_rate);
  return rates;
}

// Invariant of numbers (PlateauRun.*): A plateau lowers the learning rate once for each time that it is
// found. Placements, ranks and resumes lower it in the same step.
TEST(PlateauRun, LowersTheRateBehindValidationsThatDoNotImprove) {
  const TemporaryFolder folder;
  const TrainResult result = run(waiting(folder)).result;
  EXPECT_EQ(rates_of(result), kRates);
  std::vector<std::int64_t> lowered;
  for (const ValidationPoint& point : result.validation)
    if (point.lowered_rate) lowered.push_back(point.step);
  EXPECT_THAT(lowered, ElementsAre(6, 10));
}

TEST(PlateauRun, KeepsTheRateWhileTheLossImproves) {
  const TemporaryFolder folder;
  RunConfig config = waiting(folder);
  config.schedule.threshold = 0;
  config.schedule.patience = 0;
  const TrainResult result = run(config).result;
  double best = result.validation.at(1).loss;
  double rate = 0.01;
  for (std::size_t v = 2; v + 1 < result.validation.size(); ++v) {
    const ValidationPoint& point = result.validation[v];
    if (point.loss < best) {
      best = point.loss;
    } else {
      rate = std::max(0.25 * rate, 0.05 * 0.01);
    }
    EXPECT_EQ(result.steps.at(static_cast<std::size_t>(point.step)).learning_rate, rate);
  }
  EXPECT_LT(best, result.validation.at(1).loss) << "it never improves";
}

TEST(PlateauRun, IsOneWhereverStateLives) {
  const TemporaryFolder folder;
  test::expect_the_same_bits_wherever_state_lives(waiting(folder), folder.path());
}

TEST(PlateauRun, IsOneBehindAResume) {
  const TemporaryFolder folder;
  const std::string straight = run(waiting(folder)).result.state_hash;
  RunConfig constant = waiting(folder);
  constant.schedule = {};
  EXPECT_NE(run(constant).result.state_hash, straight) << "nothing would show";
  for (const std::int64_t steps : {3, 4, 5, 6, 7, 10}) {
    RunConfig config = waiting(folder);
    config.checkpoint.path = (folder.path() / "out" / std::to_string(steps)).string();
    config.train.steps = steps;
    run(config);
    config.train.steps = 12;
    const TrainResult resumed = run(config).result;
    EXPECT_THAT(rates_of(resumed), ElementsAreArray(kRates.begin() + steps, kRates.end())) << steps;
    EXPECT_EQ(resumed.state_hash, straight) << steps;
  }
}

TEST(PlateauRun, IsOneBehindAStopAndASaveOfEachStep) {
  const TemporaryFolder folder;
  const std::string straight = run(waiting(folder)).result.state_hash;
  for (const std::int64_t every : {0, 2}) {
    RunConfig config = waiting(folder);
    config.checkpoint.path = (folder.path() / "stopped" / std::to_string(every)).string();
    config.checkpoint.every = every;
    std::atomic<bool> stop = false;
    test::StopAfter stopping(7, stop);
    run(config, {.stop = &stop, .listener = &stopping});
    const TrainResult resumed = run(config).result;
    EXPECT_LT(resumed.steps.size(), 12U) << "nothing was resumed";
    EXPECT_EQ(resumed.state_hash, straight);
  }
}

TEST(PlateauRun, IsOneForAllRanks) {
  const TemporaryFolder folder;
  RunConfig alone = waiting(folder);
  alone.train.batch = 8;
  std::vector<RunConfig> shared = test::shared_by_two_ranks(alone);
  shared.push_back(alone);
  shared.back().model.config["tie_word_embeddings"] = false;
  shared.back().optimizer.clip_norm = 0;
  shared.back().parallel.pipeline = 2;
  shared.back().parallel.schedule = PipelineSchedule::pipedream_2bw;
  for (const RunConfig& config : shared) {
    SCOPED_TRACE(test::layout_of(config));
    for (const test::RunOutcome& rank : run_ranks(config, 2)) {
      EXPECT_EQ(rates_of(rank.result), kRates);
      test::expect_the_plan_was_exact(rank);
    }
  }
}

}  // namespace
}  // namespace strata
