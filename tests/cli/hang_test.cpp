// A drive that hangs ends the program with a sentence, wherever it is met: nobody waits for ever, and nothing
// that was saved is lost.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/hanging_drive.h"
#include "tests/cli/workspace.h"
#include "tests/support/drive.h"

namespace strata::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class HangProcessTest : public Workspace {
 protected:
  /// With all state on drives and a checkpoint of every step.
  static Arguments run(const Arguments& overrides) {
    Arguments all = {"train.steps=20",
                     "memory.device=128KiB",
                     "memory.nvme.path=.",
                     "checkpoint.path=out",
                     "memory.placement.optimizer_state=nvme",
                     "memory.placement.parameters=nvme"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return train("run.yaml", all);
  }
  static Arguments saving_run(Arguments overrides) {
    overrides.emplace_back("checkpoint.every=1");
    return run(overrides);
  }
  Outcome meet(const std::string& call_part_count, const Arguments& arguments) const {
    const HangingDrive drive(call_part_count);
    return strata(arguments);
  }
  /// The run says which file did not answer, and goes on to the bits of a run that met no hang.
  void expect_the_run_goes_on(const Outcome& hung, const std::string& file) const {
    expect_sentence(
        hung, 1,
        {file, "has not advanced for 3 s", "is saved; see to it and resume with: ", "strata train run.yaml"});
    const Outcome resumed = strata(run({}));
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resuming from out/step-"));
    EXPECT_THAT(resumed.out, HasSubstr("state hash " + state_hash(train("run.yaml", {"train.steps=20"}))));
  }
  void SetUp() override {
    if (const std::string reason = test::why_no_drive(path(".")); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// Invariant of failures (HangProcessTest.*): Nothing waits forever and nothing at work is ended. A drive or
// file server that does not answer ends the program with a sentence. Strata waits for work that advances,
// however long it takes.
TEST_F(HangProcessTest, OfAWriteToADriveIsSaidAndEndsTheRun) {
  expect_the_run_goes_on(
      meet("pwrite:strata-spill/spill:200", saving_run({"train.watchdog=3", "memory.nvme.engine=threads"})),
      "strata-spill/spill");
}

TEST_F(HangProcessTest, OfAReadFromADriveIsSaidAndEndsTheRun) {
  expect_the_run_goes_on(
      meet("pread:strata-spill/spill:200", saving_run({"train.watchdog=3", "memory.nvme.engine=threads"})),
      "strata-spill/spill");
}

TEST_F(HangProcessTest, OfARingIsSaidAndEndsTheRun) {
  const Arguments ring = saving_run({"train.watchdog=3", "memory.nvme.engine=io_uring"});
  if (const std::string reason = test::why_no_drive(path("."), StoreEngine::io_uring); !reason.empty())
    GTEST_SKIP() << reason;
  expect_the_run_goes_on(meet("uring::200", ring), "strata-spill/spill");
}

TEST_F(HangProcessTest, OfASaveBesideTrainingIsSaidAndEndsTheRun) {
  expect_the_run_goes_on(meet("fsync:out/step-:20", saving_run({"train.watchdog=3"})), "out/step-");
}

TEST_F(HangProcessTest, OfTheSaveAtTheEndIsSaidAndEndsTheRun) {
  ASSERT_EQ(strata(run({"train.steps=2"})).status, 0);
  expect_the_run_goes_on(meet("write:out/step-:2", run({"train.watchdog=3"})), "out/step-");
}

TEST_F(HangProcessTest, OfTheCheckpointThatIsReadIsSaidBeforeAnythingRuns) {
  ASSERT_EQ(strata(run({"train.steps=2"})).status, 0);
  const Outcome hung = meet("pread:out/step-00000002:3", run({"train.watchdog=3"}));
  expect_sentence(hung, 1,
                  {"reading out/step-00000002", "has not advanced for 3 s",
                   "begin again with: ", "strata train run.yaml"});
}

TEST_F(HangProcessTest, OfADriveThatIsMeasuredIsSaid) {
  const Outcome doctor =
      meet("uring::40", {"doctor", "run.yaml", "--drive", ".", "--set", "train.watchdog=3"});
  EXPECT_EQ(doctor.status, 1);
  EXPECT_THAT(doctor.err, HasSubstr("strata: measuring ./strata-spill/curve has not advanced for 3 s"));
}

TEST_F(HangProcessTest, DuringACleanStopIsEndedByASecondCtrlC) {
  LinePipe metrics(path("metrics"));
  const HangingDrive drive("fsync:out/step-:1");
  Process run = start(saving_run({"report.metrics=metrics"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  run.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // one of two signals that wait is lost
  run.send(SIGINT);
  EXPECT_EQ(run.wait().status, -SIGINT);
}

TEST_F(HangProcessTest, OfOneRanksDriveIsSaidOnceAndEndsAll) {
  const HangingDrive drive("pwrite:strata-spill-1/spill:40");
  const Arguments arguments = run({"train.watchdog=3", "memory.nvme.engine=threads", "train.threads=1",
                                   "train.batch=6", "train.microbatch=1", "train.precision=fp32"});
  const Outcome outcome = strata_on_ranks(3, arguments);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, ContainsRegex("strata: .*rank 1 .*strata-spill-1/spill has not advanced for 3 s"));
  EXPECT_EQ(outcome.err.find("strata: "), outcome.err.rfind("strata: ")) << outcome.err;
}

}  // namespace
}  // namespace strata::test
