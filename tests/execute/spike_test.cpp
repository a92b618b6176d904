// train.spike: steps with far larger gradients than those before update nothing.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::run_ranks;
using test::TemporaryFolder;

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
    EXPECT_EQ(step.spiked, spiked) << step.step;
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

}  // namespace
}  // namespace strata
