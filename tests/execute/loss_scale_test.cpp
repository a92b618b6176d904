// fp16 runs: an overflow skips the step exactly, the scale finds its way, and a resumed run goes on with it.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::run;
using test::TemporaryFolder;
using test::tiny_run;

RunConfig fp16_run(const std::filesystem::path& folder) {
  RunConfig config = tiny_run(folder);
  config.train.precision = DType::fp16;
  return config;
}

TEST(LossScaling, SkipsOverflowingStepsAndBacksOff) {
  const TemporaryFolder folder;
  RunConfig config = fp16_run(folder.path());
  config.train.steps = 14;
  config.train.loss_scale_initial = 0x1p24;  // far above what gradients in fp16 allow
  config.plan.lanes = LaneMode::serial;
  std::vector<std::string> hashes;
  const auto collect = [&](const Instruction& instruction, Trainer& trainer) {
    const bool last = instruction.operation == Operation::update && instruction.unit == 4;
    if (last) hashes.push_back(state_hash(test::model_of(config), trainer.state().access()));
  };
  const TrainResult result = run(config, {.observer = collect}).result;
  const std::int64_t skipped = result.counters.skipped;
  ASSERT_GT(skipped, 0);
  ASSERT_LT(skipped, config.train.steps);
  EXPECT_EQ(result.counters.updates, config.train.steps - skipped);
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    const StepReport& report = result.steps[static_cast<std::size_t>(step)];
    EXPECT_EQ(report.skipped, step < skipped) << step;
    EXPECT_EQ(report.loss_scale, std::ldexp(1.0, 24 - static_cast<int>(std::min(step, skipped)))) << step;
    const auto index = static_cast<std::size_t>(step);
    if (step > 0) {
      EXPECT_EQ(hashes[index] == hashes[index - 1], step < skipped) << step;
    }
  }
}

/// A parameter on a drive, or pinned to the device, has no other copy that a step without an update could
/// leave in its place.
class LossScalingOfPlacedState : public ::testing::Test {
 protected:
  LossScalingOfPlacedState() {
    config_.train.steps = 14;
    config_.train.loss_scale_initial = 0x1p24;
  }

  void expect_what_a_resident_run_does(const RunConfig& placed) const {
    const TrainResult resident = run(config_).result;
    ASSERT_GT(resident.counters.skipped, 0);
    const TrainResult result = run(placed).result;
    EXPECT_EQ(result.state_hash, resident.state_hash);
    for (std::size_t step = 0; step < resident.steps.size(); ++step)
      EXPECT_EQ(result.steps[step].loss, resident.steps[step].loss) << step;
  }

  TemporaryFolder folder_;
  RunConfig config_ = fp16_run(folder_.path());
};

TEST_F(LossScalingOfPlacedState, KeepsParametersOfSkippedStepsPinnedToTheDevice) {
  RunConfig pinned = config_;
  pinned.memory.parameters = TierChoice::device;
  pinned.memory.optimizer_state = TierChoice::host;
  expect_what_a_resident_run_does(pinned);
}

TEST_F(LossScalingOfPlacedState, KeepsParametersOfSkippedStepsOnADrive) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig spilled = config_;
  spilled.memory.device = test::smallest_bytes(config_);
  spilled.memory.nvme_path = {folder_.path().string()};
  spilled.memory.parameters = spilled.memory.optimizer_state = TierChoice::nvme;
  expect_what_a_resident_run_does(spilled);
}

TEST(LossScaling, DoesNotShowInNormsAndUpdates) {
  const TemporaryFolder folder;
  RunConfig config = fp16_run(folder.path());
  config.train.loss_scale_initial = 1024;
  const TrainResult low = run(config).result;
  config.train.loss_scale_initial = 4096;
  const TrainResult high = run(config).result;
  for (std::size_t step = 0; step < low.steps.size(); ++step) {
    EXPECT_NEAR(low.steps[step].grad_norm, high.steps[step].grad_norm, 1e-3 * low.steps[step].grad_norm);
    EXPECT_NEAR(low.steps[step].loss, high.steps[step].loss, 1e-3 * low.steps[step].loss);
  }
}

TEST(LossScaling, GrowsAndIsResumed) {
  const TemporaryFolder folder;
  RunConfig config = fp16_run(folder.path());
  config.train.steps = 6;
  config.train.loss_scale_initial = 256;
  config.train.loss_scale_interval = 2;
  const TrainResult straight = run(config).result;
  EXPECT_EQ(straight.steps.back().loss_scale, 1024);
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 3;
  run(config);
  config.train.steps = 6;
  const TrainResult resumed = run(config).result;
  EXPECT_EQ(resumed.steps.front().loss_scale, 512);
  EXPECT_EQ(resumed.state_hash, straight.state_hash);
}

}  // namespace
}  // namespace strata
