// Updates right before the next step's forward passes: the state of a run, its checkpoints, and where it
// stops and goes on are those of a run that makes them at the step's end.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/run/execute/plan_check.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOptions;
using test::RunOutcome;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::StopAfter;

struct LateArithmetic {
  DType precision;
  Order order = Order::layer_major;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
};

class LateUpdates : public ::testing::TestWithParam<LateArithmetic> {
 protected:
  void SetUp() override {
    if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty())
      GTEST_SKIP() << reason;
  }

  /// Five steps whose updates wait for the norm of all gradients.
  RunConfig resident_run() const {
    RunConfig config = test::tiny_run(folder_.path());
    config.train.precision = GetParam().precision;
    config.plan.order = GetParam().order;
    config.optimizer.master = GetParam().master;
    config.optimizer.moments = GetParam().moments;
    config.train.steps = 5;
    return config;
  }
  /// The same with all that steps keep on a drive, so that forward passes read there what updates wrote.
  RunConfig spilled_run() const {
    RunConfig config = resident_run();
    config.memory.device = smallest_bytes(config) + 40 * KiB;
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
    return config;
  }
  static void expect_late(const RunOutcome& outcome) {
    EXPECT_TRUE(outcome.plan.only().strategy.updates_late);
  }

  const test::TemporaryFolder folder_;
};

// Invariant of placement (LateUpdates*.*): Late updates change no result. State, losses, checkpoints, stops
// and skipped steps equal those of updates at the end of the step. No state is touched before the first step.
TEST_P(LateUpdates, GiveTheBitsAndLossesOfUpdatesAtTheStepsEnd) {
  RunConfig config = resident_run();
  config.train.validate_every = 2;
  config.train.validation_batches = 2;
  const TrainResult expected = run(config).result;
  config = spilled_run();
  config.train.validate_every = 2;
  config.train.validation_batches = 2;
  const Bytes smallest = smallest_host_bytes(config);
  for (const Bytes host : {3 * smallest, 6 * smallest, kUnlimited}) {
    config.memory.host = host;
    for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
      config.plan.lanes = lanes;
      const RunOutcome outcome = run(config);
      expect_late(outcome);
      EXPECT_EQ(outcome.result.state_hash, expected.state_hash);
      ASSERT_EQ(outcome.result.steps.size(), expected.steps.size());
      for (std::size_t step = 0; step < expected.steps.size(); ++step) {
        EXPECT_EQ(outcome.result.steps[step].loss, expected.steps[step].loss);
        EXPECT_EQ(outcome.result.steps[step].grad_norm, expected.steps[step].grad_norm);
      }
      ASSERT_EQ(outcome.result.validation.size(), expected.validation.size());
      for (std::size_t i = 0; i < expected.validation.size(); ++i)
        EXPECT_EQ(outcome.result.validation[i].loss, expected.validation[i].loss);
      expect_the_plan_was_exact(outcome);
    }
  }
}

TEST_P(LateUpdates, LeaveWholeStepsWhereTheRunIsStopped) {
  RunConfig config = resident_run();
  const std::string expected = run(config).result.state_hash;
  config = spilled_run();
  for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
    for (const std::int64_t every : {0, 2}) {
      config.plan.lanes = lanes;
      config.checkpoint.every = every;
      config.checkpoint.path =
          (folder_.path() / (lanes == LaneMode::serial ? "serial" : "overlapped")).string() +
          std::to_string(every);
      std::atomic<bool> stop = false;
      StopAfter listener(2, stop);
      const RunOutcome stopped = run(config, {.files = &test::quick(), .stop = &stop, .listener = &listener});
      expect_late(stopped);
      EXPECT_TRUE(stopped.result.interrupted);
      EXPECT_EQ(stopped.result.counters.step, 2);
      EXPECT_EQ(stopped.result.saves, every == 2 ? 1 : 0);
      const TrainResult resumed = run(config, {.files = &test::quick()}).result;
      EXPECT_EQ(resumed.steps.size(), 3U);
      EXPECT_EQ(resumed.state_hash, expected);
    }
  }
}

TEST_P(LateUpdates, AreSavedWithTheirOwnStep) {
  RunConfig config = resident_run();
  config.checkpoint.path = (folder_.path() / "reference").string();
  config.checkpoint.every = 2;
  run(config, {.files = &test::quick()});
  const std::string reference = config.checkpoint.path;
  config = spilled_run();
  config.checkpoint.path = (folder_.path() / "late").string();
  config.checkpoint.every = 2;
  config.checkpoint.keep = 9;
  const RunOutcome outcome = run(config, {.files = &test::quick()});
  expect_late(outcome);
  EXPECT_EQ(outcome.result.saves, 3);
  expect_the_plan_was_exact(outcome);
  const Model model = test::model_of(config);
  for (const std::int64_t steps : {5, 4}) {
    std::string hash;
    for (const std::string& path : {reference, config.checkpoint.path}) {
      test::State state(model, 0);
      const auto loaded = CheckpointStore(path, 9).load_newest(model, state.access());
      ASSERT_TRUE(loaded.has_value());
      EXPECT_EQ(loaded->progress.counters.step, steps);
      const std::string found = state_hash(model, state.access());
      if (hash.empty()) hash = found;
      EXPECT_EQ(found, hash) << path << " at step " << steps;
      std::filesystem::remove_all(loaded->folder);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , LateUpdates,
    ::testing::Values(LateArithmetic{DType::bf16}, LateArithmetic{DType::bf16, Order::microbatch_major},
                      LateArithmetic{DType::fp32}, LateArithmetic{DType::fp16, Order::microbatch_major},
                      LateArithmetic{DType::bf16, Order::layer_major, MasterFormat::split,
                                     MomentFormat::coded},
                      LateArithmetic{DType::bf16, Order::layer_major, MasterFormat::none}),
    [](const auto& info) {
      return std::string(name_of(info.param.precision)) +
             nth(std::array{"_whole", "_small", "_without_master"}, info.param.master) +
             (info.param.order == Order::layer_major ? "_layer_major" : "_microbatch_major");
    });

TEST(LateUpdatesOfSkippedSteps, LeaveTheStateAsItIs) {
  const test::TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig config = test::tiny_run(folder.path());
  config.train.precision = DType::fp16;
  config.train.steps = 14;
  config.train.loss_scale_initial = std::ldexp(1.0, 24);
  const TrainResult expected = run(config).result;
  ASSERT_GT(expected.counters.skipped, 0);
  ASSERT_GT(expected.counters.updates, 0);
  config.memory.device = smallest_bytes(config);
  config.memory.nvme_path = {folder.path().string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  const RunOutcome outcome = run(config);
  EXPECT_TRUE(outcome.plan.only().strategy.updates_late);
  EXPECT_EQ(outcome.result.counters.skipped, expected.counters.skipped);
  EXPECT_EQ(outcome.result.state_hash, expected.state_hash);
}

TEST(LateUpdatesOfRanks, EndTogetherAndGoOnToTheSameBits) {
  const test::TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  for (const int stage : {0, 1, 3}) {
    RunConfig config = test::tiny_run(folder.path());
    config.parallel.zero_stage = stage;
    config.train.batch = 12;
    config.train.microbatch = 1;
    config.train.steps = 8;
    const std::string expected = run_ranks(config, 3)[0].result.state_hash;
    config.parallel.data = 3;
    config.memory.device = smallest_bytes(config);
    config.memory.nvme_path = {folder.path().string()};
    config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
    config.checkpoint.path = (folder.path() / ("stopped" + std::to_string(stage))).string();
    std::atomic<bool> stop = false;
    StopAfter listener(2, stop);
    const auto stopped = run_ranks(config, 3, [&](int rank) {
      return rank == 1 ? RunOptions{.stop = &stop, .listener = &listener} : RunOptions{};
    });
    for (const RunOutcome& rank : stopped) {
      EXPECT_TRUE(rank.plan.only().strategy.updates_late);
      EXPECT_TRUE(rank.result.interrupted);
      EXPECT_EQ(rank.result.counters.step, stopped[0].result.counters.step);
    }
    EXPECT_EQ(run_ranks(config, 3)[0].result.state_hash, expected);
  }
}

}  // namespace
}  // namespace strata
