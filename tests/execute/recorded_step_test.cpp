// What is recorded of a step: when each instruction ran, on its lane and behind what it waits for.
#include "engine/run/execute/step_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::run;
using test::RunOutcome;
using test::TemporaryFolder;
using test::tiny_run;

constexpr double kClockError = 1e-6;

/// REQUIRES: the device's clock is the host's, as the CPU device's is: those of others begin together only as
/// closely as the host notices an event.
void expect_a_whole_step(const RunOutcome& outcome, const RecordedStep& recorded) {
  const Program& program = outcome.plan.training().program;
  const Dependencies& dependencies = outcome.plan.training().dependencies;
  ASSERT_EQ(recorded.times.size(), program.instructions.size());
  const auto time_of = [&](std::int32_t i) { return recorded.times[static_cast<std::size_t>(i)]; };
  for (const Lane lane : kLanes) {
    double free = 0;
    for (const std::int32_t i : dependencies.lanes[lane]) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
      SCOPED_TRACE(print(program, instruction));
      if (instruction.when == When::saving || instruction.serves == Serves::first_step) {
        EXPECT_LT(time_of(i).end, time_of(i).start);
        continue;
      }
      EXPECT_GE(time_of(i).start, free - kClockError);
      EXPECT_GE(time_of(i).end, time_of(i).start);
      free = time_of(i).end;
      for (const Lane other : kLanes) {
        const LanePosition& wait = dependencies.waits[static_cast<std::size_t>(i)][other];
        if (wait.position < 0 || wait.previous_step) continue;
        const std::int32_t awaited = dependencies.lanes[other][static_cast<std::size_t>(wait.position)];
        EXPECT_GE(time_of(i).start, time_of(awaited).end - kClockError) << awaited;
      }
    }
  }
}

TEST(RecordedSteps, HaveEachInstructionBehindThoseItWaitsFor) {
  const TemporaryFolder folder;
  for (const LaneMode lanes : {LaneMode::overlapped, LaneMode::serial}) {
    RunConfig config = tiny_run(folder.path());
    config.plan.lanes = lanes;
    config.memory.device = test::smallest_bytes(config) + 40 * KiB;
    const std::string hash = run(config).result.state_hash;
    EarlyStep recorded;
    CpuDevice device({.threads = 2, .link = {}});
    const RunOutcome outcome = run(config, {.device = &device, .recording = {&recorded}});
    expect_a_whole_step(outcome, recorded.get());
    EXPECT_EQ(recorded.get().seconds, outcome.result.steps[2].seconds);
    EXPECT_EQ(outcome.result.state_hash, hash);
  }
}

TEST(RecordedSteps, AreTheLastOfAShortRun) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 1;
  EarlyStep recorded;
  CpuDevice device({.threads = 2, .link = {}});
  const RunOutcome outcome = run(config, {.device = &device, .recording = {&recorded}});
  expect_a_whole_step(outcome, recorded.get());
  EXPECT_EQ(recorded.get().seconds, outcome.result.steps[0].seconds);
}

/// Wants some steps, the first is 0, and keeps of each whether all that a step performs has run.
class SomeSteps : public RoundListener {
 public:
  explicit SomeSteps(std::set<std::int64_t> steps) : steps_(std::move(steps)) {}

  bool wants(const RoundOfRun& round) const override {
    const std::optional<std::int64_t> step = round.step_of(0);
    return step && steps_.contains(*step);
  }
  void on_recorded(const RecordedStep& step, const RoundOfRun& /*round*/) override {
    const std::vector<Instruction>& instructions = step.program->program.instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& one = instructions[i];
      const bool has_run = step.times[i].has_run();
      if (one.lane == Lane::save) {
        EXPECT_FALSE(has_run);
      } else if (one.when == When::every_step && one.serves != Serves::first_step) {
        missing_ += !has_run;
      }
    }
    EXPECT_GT(step.seconds, 0);
    for (const ModelReport& report : step.reports) seen_.push_back(report.report.step);
  }
  const std::vector<std::int64_t>& seen() const { return seen_; }
  int missing() const { return missing_; }

 private:
  std::set<std::int64_t> steps_;
  std::vector<std::int64_t> seen_;
  int missing_ = 0;
};

TEST(RecordedSteps, AreThoseThatAreWantedAndNoBitChanges) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 12;
  config.train.validate_every = 4;
  config.train.validation_batches = 1;
  config.memory.device = test::smallest_bytes(config) + 40 * KiB;
  const std::string hash = run(config).result.state_hash;
  for (const LaneMode lanes : {LaneMode::overlapped, LaneMode::serial}) {
    config.plan.lanes = lanes;
    for (const bool in_the_background : {false, true}) {
      test::QueuedDevice queued({.threads = 2, .link = {}});
      SomeSteps some({1, 3, 4, 5, 6, 7, 8, 11}), others({4, 20});
      test::RunOptions options = {.recording = {&some, &others}};
      if (in_the_background) options.device = &queued;
      EXPECT_EQ(run(config, options).result.state_hash, hash);
      EXPECT_THAT(some.seen(), ::testing::ElementsAre(1, 3, 4, 5, 6, 7, 8, 11));
      EXPECT_THAT(others.seen(), ::testing::ElementsAre(4));
      EXPECT_EQ(some.missing(), 0);
    }
  }
}

/// A stop leaves rounds that lanes have begun. Some of these have all that the recorder holds.
TEST(RecordedSteps, OfARunThatIsStoppedOrFailsAreThoseThatEnded) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 40;
  std::set<std::int64_t> all;
  for (std::int64_t step = 0; step < 40; ++step) all.insert(step);
  for (int steps = 1; steps < 8; ++steps) {
    SomeSteps some(all);
    std::atomic<bool> stop = false;
    test::StopAfter listener(steps, stop);
    const RunOutcome outcome = run(config, {.stop = &stop, .listener = &listener, .recording = {&some}});
    EXPECT_EQ(std::ssize(some.seen()), std::ssize(outcome.result.steps));
    EXPECT_EQ(some.missing(), 0);
  }
}

TEST(RecordedSteps, OfLateUpdatesHaveThoseOfTheStepBefore) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 5;
  config.memory.device = test::smallest_bytes(config) + 40 * KiB;
  config.memory.nvme_path = {folder.path().string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  const std::string hash = run(config).result.state_hash;
  SomeSteps some({0, 2, 3, 4});
  const RunOutcome outcome = run(config, {.recording = {&some}});
  ASSERT_TRUE(outcome.plan.only().strategy.updates_late);
  EXPECT_EQ(outcome.result.state_hash, hash);
  EXPECT_THAT(some.seen(), ::testing::ElementsAre(0, 2, 3, 4));
  EXPECT_GT(some.missing(), 0);  // the first step has none before it
}

}  // namespace
}  // namespace strata
