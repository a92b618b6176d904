// What is recorded of a step: when each instruction ran, on its lane and behind what it waits for.
#include "engine/execute/recorded_step.h"

#include <gtest/gtest.h>

#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::RunOutcome;
using test::TemporaryFolder;
using test::tiny_run;

constexpr double kClockError = 1e-6;

void expect_a_whole_step(const RunOutcome& outcome, const RecordedStep& recorded) {
  const Program& program = outcome.plan.training.program;
  const Dependencies& dependencies = outcome.plan.training.dependencies;
  ASSERT_EQ(recorded.times.size(), program.instructions.size());
  const auto time_of = [&](std::int32_t i) { return recorded.times[static_cast<std::size_t>(i)]; };
  for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
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
      for (std::size_t other = 0; other < kLanes.size(); ++other) {
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
    RecordedStep recorded;
    const RunOutcome outcome = run(config, {.record = &recorded});
    expect_a_whole_step(outcome, recorded);
    EXPECT_EQ(recorded.seconds, outcome.result.steps[2].seconds);
    EXPECT_EQ(outcome.result.state_hash, hash);
  }
}

TEST(RecordedSteps, AreTheLastOfAShortRun) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 1;
  RecordedStep recorded;
  const RunOutcome outcome = run(config, {.record = &recorded});
  expect_a_whole_step(outcome, recorded);
  EXPECT_EQ(recorded.seconds, outcome.result.steps[0].seconds);
}

}  // namespace
}  // namespace strata
