// train.spike: steps with far larger gradients than those before update nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/run_config.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::run;
using test::run_ranks;
using test::TemporaryFolder;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Norms of gradients rise, since steps are far too large.
RunConfig rising(const TemporaryFolder& folder) {
  RunConfig config = test::tiny_run(folder.path());
  config.train.precision = DType::fp32;
  config.train.steps = 12;
  config.optimizer.type = OptimizerType::sgd;
  config.optimizer.learning_rate = 1.5;
  config.optimizer.clip_norm = 0;
  config.spike = {.factor = 1.2, .window = 2};
  return config;
}

// Invariant of numbers (SpikeRun.*): A spike updates nothing, and the steps behind it go on as if it had not
// been. Placements, ranks and resumes decide alike.
TEST(SpikeRun, UpdatesNothingAndIsReported) {
  const TemporaryFolder folder;
  const RunConfig config = rising(folder);
  const TrainResult result = run(config).result;
  Counters counters;
  const SpikeSettings settings = {.factor = config.spike.factor, .window = config.spike.window};
  std::int64_t spikes = 0;
  for (const StepReport& step : result.steps) {
    const bool spiked = is_spike(settings, counters, step.grad_norm);
    EXPECT_EQ(step.spiked(), spiked) << step.step;
    EXPECT_EQ(step.skipped, spiked) << step.step;
    counters.mean_norm = next_mean_norm(settings, counters, step.grad_norm);
    ++(spiked ? spikes : counters.updates);
  }
  EXPECT_GT(spikes, 0) << "the run has none to skip";
  EXPECT_LT(spikes, 6);
  EXPECT_EQ(result.counters.skipped, spikes);
  RunConfig unguarded = config;
  unguarded.spike = {};
  EXPECT_EQ(run(unguarded).result.counters.skipped, 0);
}

TEST(SpikeRun, IsOneWhereverStateLivesAndBehindAResume) {
  const TemporaryFolder folder;
  RunConfig config = rising(folder);
  test::expect_the_same_bits_wherever_state_lives(config, folder.path());
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 5;
  run(config);
  config.train.steps = 12;
  EXPECT_EQ(run(config).result.state_hash, straight);
}

TEST(SpikeRun, IsOneForAllRanks) {
  const TemporaryFolder folder;
  RunConfig alone = rising(folder);
  alone.train.batch = 8;
  const TrainResult expected = run(alone).result;
  for (const RunConfig& config : test::shared_by_two_ranks(alone)) {
    SCOPED_TRACE(test::layout_of(config));
    for (const test::RunOutcome& rank : run_ranks(config, 2)) {
      EXPECT_EQ(rank.result.counters.skipped, expected.counters.skipped);
      test::expect_the_plan_was_exact(rank);
    }
  }
}

/// Its weights stay as they are, so the loss and the norm of a step are those of its data alone.
RunConfig standing_still(const TemporaryFolder& folder) {
  RunConfig config = test::tiny_run(folder.path());
  config.train.precision = DType::fp32;
  config.train.steps = 32;
  config.optimizer.learning_rate = 0;
  config.optimizer.clip_norm = 0;
  return config;
}

/// Goes back for each spike. There are several.
RunConfig rolling_back(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = standing_still(folder);
  config.spike = {.factor = 1.07, .window = 8, .roll_back = 1};
  config.checkpoint.path = (folder.path() / name).string();
  config.checkpoint.every = 2;
  config.checkpoint.keep = 4;  // what a stop saves is one of them
  return config;
}

struct Reported {
  std::int64_t step;
  double loss;
  friend bool operator==(const Reported&, const Reported&) = default;
};

std::vector<Reported> steps_of(const TrainResult& result) {
  std::vector<Reported> steps;
  for (const StepReport& step : result.steps) steps.push_back({step.step, step.loss});
  return steps;
}

/// Steps that the run reports, by the losses and norms of data that no spike takes it from.
std::vector<Reported> expected_steps(const RunConfig& config, const std::vector<StepReport>& data) {
  const SpikeSettings settings = {.factor = config.spike.factor, .window = config.spike.window};
  std::vector<Reported> steps;
  std::map<std::int64_t, Counters> saved;
  Counters counters;
  const auto make_step = [&] {
    const StepReport& of = data.at(static_cast<std::size_t>(counters.step + counters.passed_over));
    steps.push_back({counters.step, of.loss});
    const bool spiked = is_spike(settings, counters, of.grad_norm);
    counters.mean_norm = next_mean_norm(settings, counters, of.grad_norm);
    ++(spiked ? counters.skipped : counters.updates);
    counters.spikes = spiked ? counters.spikes + 1 : 0;
    if (++counters.step % config.checkpoint.every == 0) saved[counters.step] = counters;
    return spiked;
  };
  while (counters.step < config.train.steps) {
    if (!make_step() || counters.spikes != config.spike.roll_back) continue;
    const std::int64_t begin = counters.step - counters.spikes, end = counters.step + counters.passed_over;
    if (counters.step < config.train.steps) make_step();  // which was under way
    saved.erase(saved.upper_bound(begin), saved.end());
    if (saved.empty()) {
      ADD_FAILURE() << "the first spike comes before the first checkpoint";
      return steps;
    }
    counters = saved.rbegin()->second;
    counters.passed_over = end - counters.step;
  }
  return steps;
}

// Invariant of numbers (SpikeRollBack.*): Behind spikes in a row a run goes back to a checkpoint from before
// them, and on with other data. It does so alike wherever state lives, on all ranks, and behind a stop.
TEST(SpikeRollBack, GoesOnFromACheckpointBehindTheDataOfTheSpikes) {
  const TemporaryFolder folder;
  RunConfig all_data = standing_still(folder);
  all_data.train.steps = 100;
  const std::vector<StepReport> data = run(all_data).result.steps;
  for (const std::int64_t spikes : {1, 2}) {
    RunConfig config = rolling_back(folder, std::to_string(spikes));
    config.spike.roll_back = spikes;
    const test::RunOutcome outcome = run(config);
    const std::vector<Reported> expected = expected_steps(config, data);
    EXPECT_GT(expected.size(), static_cast<std::size_t>(config.train.steps)) << "nothing is to go back for";
    EXPECT_THAT(steps_of(outcome.result), ElementsAreArray(expected)) << spikes;
    EXPECT_EQ(outcome.result.counters.step, config.train.steps);
    EXPECT_GT(outcome.result.counters.passed_over, 0);
    EXPECT_EQ(outcome.result.ended, "");
    test::expect_the_plan_was_exact(outcome);
  }
}

/// As rising(), whose weights go bad with each step.
RunConfig rising_and_rolling_back(const TemporaryFolder& folder, const std::string& name) {
  RunConfig config = rising(folder);
  config.optimizer.learning_rate = 0.9;
  config.train.steps = 16;
  config.spike.roll_back = 1;
  config.checkpoint.path = (folder.path() / name).string();
  config.checkpoint.every = 2;
  return config;
}

TEST(SpikeRollBack, IsOneWhereverStateLivesAndForAllRanks) {
  const TemporaryFolder folder;
  const RunConfig resident = rising_and_rolling_back(folder, "resident");
  const TrainResult expected = run(resident).result;
  EXPECT_GT(expected.counters.passed_over, 0) << "it does not go back";
  RunConfig spilled = rising_and_rolling_back(folder, "spilled");
  spilled.memory.device = test::smallest_bytes(spilled);
  EXPECT_EQ(run(spilled).result.state_hash, expected.state_hash);
  if (test::why_no_drive(folder.path()).empty()) {
    const RunConfig drives = test::on_drives(rising_and_rolling_back(folder, "drives"), folder.path());
    EXPECT_EQ(run(drives).result.state_hash, expected.state_hash);
  }
  RunConfig alone = rolling_back(folder, "alone");
  alone.train.batch = 8;
  alone.spike.factor = 1.04;
  const TrainResult of_one = run(alone).result;
  EXPECT_GT(of_one.counters.passed_over, 0) << "it does not go back";
  for (RunConfig config : test::shared_by_two_ranks(alone)) {
    SCOPED_TRACE(test::layout_of(config));
    config.checkpoint.path =
        (folder.path() / test::layout_of(config)).string() + (config.parallel.sequence ? "s" : "");
    for (const test::RunOutcome& rank : run_ranks(config, 2)) {
      EXPECT_EQ(rank.result.steps.size(), of_one.steps.size());
      EXPECT_EQ(rank.result.counters.passed_over, of_one.counters.passed_over);
      test::expect_the_plan_was_exact(rank);
    }
  }
}

/// Asks for a stop once that many steps were reported, those that are made again included.
class StopAfterReports : public TrainListener {
 public:
  StopAfterReports(std::size_t reports, std::atomic<bool>& stop) : left_(reports), stop_(stop) {}
  void on_step(const StepReport& /*report*/) override {
    if (--left_ == 0) stop_ = true;
  }

 private:
  std::size_t left_;
  std::atomic<bool>& stop_;
};

/// Its plateau is found again and again.
RunConfig validating(RunConfig config) {
  config.train.validate_every = 2;
  config.schedule = {.type = ScheduleType::plateau, .patience = 0, .threshold = 0.9};
  return config;
}

TEST(SpikeRollBack, IsOneBehindAStop) {
  const TemporaryFolder folder;
  const RunConfig straight = validating(rolling_back(folder, "straight"));
  const TrainResult expected = run(straight).result;
  EXPECT_EQ(expected.counters.plateau.falls, 15) << "each validation but the first counts once";
  for (std::size_t reports = 3; reports + 1 < expected.steps.size(); reports += 4) {
    const RunConfig config = validating(rolling_back(folder, "stopped" + std::to_string(reports)));
    std::atomic<bool> stop = false;
    StopAfterReports stopping(reports, stop);
    run(config, {.stop = &stop, .listener = &stopping});
    const TrainResult resumed = run(config).result;
    EXPECT_EQ(resumed.counters.passed_over, expected.counters.passed_over) << reports;
    EXPECT_EQ(resumed.counters.plateau, expected.counters.plateau) << reports;
    EXPECT_EQ(resumed.steps.back().loss, expected.steps.back().loss) << reports;
    EXPECT_EQ(resumed.state_hash, expected.state_hash) << reports;
  }
}

TEST(SpikeRollBack, EndsTheRunWhereItHelpsNothing) {
  const TemporaryFolder folder;
  RunConfig config = rolling_back(folder, "out");
  config.spike.factor = 1.0001;
  config.spike.window = 2;
  config.checkpoint.every = 8;
  const TrainResult result = run(config).result;
  EXPECT_THAT(result.ended, HasSubstr(" was a spike (train.spike), and the run has gone back to "));
  EXPECT_THAT(result.ended, HasSubstr(" 3 times (train.spike.roll_back)"));
}

TEST(SpikeRollBack, IsNotWithoutAnOlderCheckpoint) {
  const TemporaryFolder folder;
  RunConfig config = rolling_back(folder, "out");
  config.checkpoint.every = 100;
  test::Warnings warnings;
  const TrainResult result = run(config, {.listener = &warnings}).result;
  EXPECT_EQ(result.steps.size(), 32U);
  ASSERT_FALSE(warnings.all().empty());
  EXPECT_THAT(warnings.all().front(), HasSubstr("no checkpoint from before them is there to go back to"));
}

}  // namespace
}  // namespace strata
