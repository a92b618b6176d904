// Resuming, stopping and skipping: what a user's run goes through besides steps.
#include "engine/run/execute/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::resident_bytes;
using test::run;
using test::RunOptions;
using test::StopAfter;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::HasSubstr;

TEST(Resume, ContinuesToTheSameBits) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 6;
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  config.checkpoint.every = 2;
  for (const std::int64_t steps : {2, 4, 6}) {
    // The schedule is constant, so a shorter run is the beginning of the longer one.
    config.train.steps = steps;
    const TrainResult result = run(config).result;
    EXPECT_EQ(result.steps.size(), 2U);
    EXPECT_EQ(result.counters.step, steps);
    if (steps == 6) {
      EXPECT_EQ(result.state_hash, straight);
    }
  }
}

TEST(Resume, GoesOnWithAnotherBudgetToTheSameBits) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 2;
  run(config);
  config.train.steps = 4;
  config.memory.device = resident_bytes(config) / 3;
  EXPECT_EQ(run(config).result.state_hash, straight);
}

TEST(Resume, StartsAnewWhereAsked) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.checkpoint.path = (folder.path() / "out").string();
  run(config);
  EXPECT_EQ(run(config).result.steps.size(), 0U);
  EXPECT_EQ(run(config, {.fresh = true}).result.steps.size(), 4U);
}

TEST(Resume, RefusesAnotherModel) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.checkpoint.path = (folder.path() / "out").string();
  run(config);
  config.model.config["hidden_size"] = 64;
  EXPECT_THROW(run(config), ConfigError);
}

/// With and without clipping: updates begin after the backward pass, or during it.
class Stop : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(ClipNorm, Stop, ::testing::Values(1.0, 0.0));

TEST_P(Stop, LeavesWholeStepsAndContinuesToTheSameBits) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 6;
  config.optimizer.clip_norm = GetParam();
  config.memory.device = resident_bytes(config) / 2;
  const std::string straight = run(config).result.state_hash;
  for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
    config.plan.lanes = lanes;
    config.checkpoint.path = (folder.path() / (lanes == LaneMode::serial ? "serial" : "overlapped")).string();
    std::atomic<bool> stop = false;
    StopAfter listener(3, stop);
    const TrainResult stopped = run(config, {.stop = &stop, .listener = &listener}).result;
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_EQ(stopped.counters.step, 3);
    EXPECT_EQ(stopped.steps.size(), 3U);
    const TrainResult resumed = run(config).result;
    EXPECT_EQ(resumed.steps.size(), 3U);
    EXPECT_EQ(resumed.state_hash, straight);
  }
}

TEST_P(Stop, BeforeTheFirstStepSavesTheStart) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.optimizer.clip_norm = GetParam();
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  const std::atomic<bool> stop = true;
  const TrainResult stopped = run(config, {.stop = &stop}).result;
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.counters.step, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "out" / "step-00000000" / "manifest.json"));
  EXPECT_EQ(run(config).result.state_hash, straight);
}

/// An element of a bf16 buffer.
void make_infinite(Trainer& trainer, BufferId id) {
  const std::span<const std::byte> bytes = trainer.state().read(id);
  std::vector<std::byte> values(bytes.begin(), bytes.end());
  reinterpret_cast<bfloat16*>(values.data())[5] = bfloat16(std::numeric_limits<float>::infinity());
  trainer.state().write(id, values);
}

TEST(NonFiniteGradients, SkipTheStepAndAreCounted) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.plan.lanes = LaneMode::serial;
  config.train.steps = 3;
  std::string before, after;
  const auto poison_second_step = [&, step = 0](const Instruction& instruction, Trainer& trainer) mutable {
    const auto hash = [&] { return state_hash(test::model_of(config), trainer.state().access()); };
    if (instruction.operation == Operation::loss && step == 1) before = hash();
    if (instruction.operation == Operation::cast_gradient && instruction.unit == 1 && step == 1) {
      make_infinite(trainer, instruction.find(Role::destination));
    }
    if (instruction.operation == Operation::update && instruction.unit == 4) {
      if (step == 1) after = hash();
      ++step;
    }
  };
  const TrainResult result = run(config, {.observer = poison_second_step}).result;
  EXPECT_EQ(result.counters.skipped, 1);
  EXPECT_EQ(result.counters.updates, 2);
  EXPECT_TRUE(result.steps[1].skipped);
  EXPECT_FALSE(result.steps[2].skipped);
  EXPECT_EQ(before, after);
}

TEST(NonFiniteGradients, WithoutClippingKeepTheirOwnUnitsOutOfTheUpdate) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.plan.lanes = LaneMode::serial;
  config.optimizer.clip_norm = 0;
  config.train.steps = 2;
  std::vector<std::vector<float>> before(5), after(5);
  const auto poison = [&, step = 0](const Instruction& instruction, Trainer& trainer) mutable {
    const auto copy_masters = [&](std::vector<std::vector<float>>& masters) {
      for (std::size_t unit = 0; unit < masters.size(); ++unit) {
        const std::span<const float> master = trainer.state().read(unit, StateKey::master);
        masters[unit].assign(master.begin(), master.end());
      }
    };
    if (step == 0 && instruction.operation == Operation::load_data) copy_masters(before);
    if (step == 0 && instruction.operation == Operation::cast_gradient && instruction.unit == 1)
      make_infinite(trainer, instruction.find(Role::destination));
    if (instruction.operation == Operation::grad_norm) {
      if (step == 0) copy_masters(after);
      ++step;
    }
  };
  for (const Bytes device : {kUnlimited, test::smallest_bytes(config)}) {
    config.memory.device = device;
    const TrainResult result = run(config, {.observer = poison}).result;
    EXPECT_EQ(result.counters.skipped, 1);
    EXPECT_TRUE(result.steps[0].skipped);
    EXPECT_FALSE(result.steps[1].skipped);
    for (std::size_t unit = 0; unit < before.size(); ++unit)
      EXPECT_EQ(before[unit] == after[unit], unit == 1) << unit;
  }
}

TEST(Failure, SurfacesAsOneErrorThatNamesTheInstruction) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const Model model = test::model_of(config);
  const Plan plan = test::make_plan(config, model);
  const std::unique_ptr<Device> device = test::make_cpu_device({.threads = 2, .link = {}});
  RunMemory memory({plan.arena_bytes(Tier::device), plan.arena_bytes(Tier::host), 0}, *device, {});
  const LaneStreams streams(*device);
  const UnitCompute compute(model, plan.only().strategy.precision, plan.only().strategy.microbatch);
  const std::vector<UnitShare> shares = shares_of(model, plan.only().strategy, 0);
  Operations operations(
      {.program = &plan.training().program,
       .compute = &compute,
       .shares = shares,
       .streams = &streams,
       .memory = memory.tiers(),
       .spill = memory.spill(),
       .load = [](auto, auto, const auto&) { throw std::runtime_error("the disk is gone"); },
       .optimizer = {},
       .threads = 1});
  for (const LaneMode mode : {LaneMode::serial, LaneMode::overlapped}) {
    Executor executor(plan.training(), {{&operations, &plan.training().program.instructions}}, streams,
                      {.mode = mode, .watchdog_seconds = 60, .observer = {}});
    try {
      executor.run({{.first = 0, .count = 2}}, std::atomic<bool>(false), {});
      FAIL() << "no error";
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("load_data"));
      EXPECT_THAT(error.what(), HasSubstr("the disk is gone"));
    }
  }
}

TEST(Deadlock, IsFoundAtOnceAndNamesWhoWaitsForWhom) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.memory.device = resident_bytes(config) / 2;
  const Model model = test::model_of(config);
  Plan plan = test::make_plan(config, model);
  // A cycle that no program order gives: the first load waits for the last update of its own step.
  auto& dependencies = plan.models.front()->training.dependencies;
  const auto first_load = dependencies.lanes[Lane::data].front();
  const auto updates = static_cast<std::int32_t>(dependencies.lanes[Lane::cpu].size());
  nth(dependencies.waits, first_load)[Lane::cpu] = {updates - 1, false};
  const BatchLoader data(config, model.architecture.vocabulary);
  const std::unique_ptr<Device> device = test::make_cpu_device({.threads = 1, .link = {}});
  Trainer trainer({{config, model, training_data(data)}}, plan, *device, {});
  TrainListener silent;
  try {
    trainer.train(std::atomic<bool>(false), silent);
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("all lanes wait for one another"));
    EXPECT_THAT(error.what(), HasSubstr("load_data"));
  }
}

}  // namespace
}  // namespace strata
