// SIGUSR2 asks a run what its lanes do: it says so, and goes on.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/cli/hanging_drive.h"
#include "tests/cli/workspace.h"
#include "tests/support/drive.h"

namespace strata::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class LanesNow : public Workspace {
 protected:
  /// Asks once the run has reported some steps.
  Outcome ask(const Arguments& overrides, const std::string& run_file = "run.yaml") const {
    LinePipe metrics(path("metrics"));
    Arguments all = {"report.metrics=metrics"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    Process run = start(train(run_file, all));
    EXPECT_TRUE(metrics.wait_for_lines(2));
    run.send(SIGUSR2);
    metrics.listen_for(1);
    return run.wait();
  }
};

TEST_F(LanesNow, AreSaidWithStepAndInstructionAndTheRunGoesOn) {
  const Arguments slow = {"memory.device=128KiB", "device.link.h2d=2MB/s"};
  const Outcome outcome = ask(slow);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string lane : {"data", "h2d", "d2h", "compute", "cpu"})
    EXPECT_THAT(outcome.err,
                ContainsRegex("\nnow: " + lane + " +(waits for [0-9.]+ s to start )?step [0-9]+: "));
  EXPECT_THAT(outcome.err,
              ContainsRegex("now: .* waits for [0-9.]+ s to start step [0-9]+: .*, behind h2d, step "));
  EXPECT_THAT(outcome.out, HasSubstr("state hash " + state_hash(train("run.yaml", slow))));
}

TEST_F(LanesNow, AreSaidInSerialMode) {
  const Outcome outcome = ask({"memory.device=128KiB", "device.link.h2d=2MB/s", "plan.lanes=serial"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ContainsRegex("\nnow: compute .*step [0-9]+: "));
}

TEST_F(LanesNow, OfSeveralModelsNameTheModel) {
  write("sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
  const Outcome outcome = ask({"memory.device=128KiB", "device.link.h2d=4MB/s"}, "sweep.yaml");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ContainsRegex("\nnow: h2d .*step [0-9]+: copy_to_device seed=[34]/"));
}

TEST_F(LanesNow, OfADriveThatHangsNameItsFile) {
  if (const std::string reason = test::why_no_drive(path(".")); !reason.empty()) GTEST_SKIP() << reason;
  LinePipe metrics(path("metrics"));
  const HangingDrive drive("pwrite:strata-spill/spill:200");
  Process run =
      start(train("run.yaml", {"train.steps=20", "memory.device=128KiB", "memory.nvme.path=.",
                               "memory.placement.optimizer_state=nvme", "memory.placement.parameters=nvme",
                               "memory.nvme.engine=threads", "train.watchdog=6", "report.metrics=metrics"}));
  ASSERT_TRUE(metrics.wait_for_lines(2));
  metrics.listen_for(3);  // until it hangs
  run.send(SIGUSR2);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, ContainsRegex("now: files    .*strata-spill/spill.*, for [0-9]+ s\n"));
  EXPECT_THAT(outcome.err, ContainsRegex("now: [a-z0-9]+ +waits for [0-9.]+ s to start step .*, behind "));
  EXPECT_THAT(outcome.err, HasSubstr("has not advanced for 6 s"));
}

TEST_F(LanesNow, OfRanksSayWhichRank) {
  LinePipe metrics(path("metrics"));
  Process run = start_ranks(2, train("run.yaml", {"report.metrics=metrics", "train.threads=1",
                                                  "memory.device=128KiB", "device.link.h2d=1MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(2));
  for (const pid_t rank : children_of(run.id())) ::kill(rank, SIGUSR2);
  metrics.listen_for(1);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string rank : {"rank 0", "rank 1"})
    EXPECT_THAT(outcome.err, ContainsRegex(rank + " .*: now: compute .*step [0-9]+: "));
}

}  // namespace
}  // namespace strata::test
