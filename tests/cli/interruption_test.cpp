// A run that is stopped, killed or out of disk loses nothing that it reported saved, and goes on to the same
// bits.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <random>

#include "base/file.h"
#include "tests/cli/workspace.h"
#include "tests/support/drive.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

class InterruptionProcessTest : public Workspace {
 protected:
  /// The run file with a checkpoint folder and more.
  static Arguments saving(Arguments overrides) {
    overrides.emplace_back("checkpoint.path=out");
    return train("run.yaml", overrides);
  }
  bool has_checkpoint(const std::string& name) const {
    return std::filesystem::exists(path("out") / name / "manifest.json");
  }
};

TEST_F(InterruptionProcessTest, ByCtrlCSavesAndSaysHowToGoOnToTheSameBits) {
  const std::string straight = state_hash(train("run.yaml"));
  LinePipe metrics(path("metrics"));
  // A slow link and a small budget, so that the signal comes long before the last step; neither changes a
  // bit.
  Process run = start(saving({"report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  run.send(SIGINT);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("stopped after step"));
  const std::string how = behind("saved; resume with: ", stopped.err);
  EXPECT_THAT(how, HasSubstr("strata train run.yaml --set 'report.metrics=metrics'"));
  EXPECT_FALSE(has_checkpoint("step-00000006"));
  const Outcome resumed = pasted(how);
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("resuming from out/step-0000000"));
  EXPECT_THAT(resumed.out, HasSubstr("state hash " + straight));
}

TEST_F(InterruptionProcessTest, OfTheTerminalSavesToo) {
  LinePipe metrics(path("metrics"));
  Process run = start(saving({"report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  run.send(SIGHUP);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("saved; resume with"));
}

/// As 2>&1 | tee log whose tee is killed.
TEST_F(InterruptionProcessTest, OfWhoReadsTheLogEndsNoRun) {
  const std::string command =
      "( " STRATA_PROGRAM " train run.yaml --set checkpoint.path=out 2>&1; echo $? >status ) | head -n 1";
  const Outcome outcome = Process("/bin/sh", {"-c", command}, {.folder = path(".")}).wait();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(read_file(path("status")), "0\n");
  EXPECT_TRUE(has_checkpoint("step-00000006"));
}

TEST_F(InterruptionProcessTest, OfWhoReadsMetricsEndsTheMetricsAlone) {
  auto metrics = std::make_unique<LinePipe>(path("metrics"));
  Process run = start(saving({"report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics->wait_for_lines(1));
  metrics.reset();
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("report.metrics: a line could not be written (Broken pipe)"));
  EXPECT_TRUE(has_checkpoint("step-00000006"));
}

TEST_F(InterruptionProcessTest, ByAPipeForMetricsThatNobodyReadsIsSaid) {
  ASSERT_EQ(::mkfifo(path("metrics").c_str(), 0600), 0);
  expect_sentence(strata(train("run.yaml", {"report.metrics=metrics", "train.watchdog=1"})), 1,
                  {"opening metrics (report.metrics, a pipe that nobody reads)", "has not advanced for 1 s"});
}

TEST_F(InterruptionProcessTest, ByCtrlCWithoutACheckpointFolderSaysThatNothingWasSaved) {
  LinePipe metrics(path("metrics"));
  Process run =
      start(train("run.yaml", {"report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  run.send(SIGINT);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("nothing was saved: checkpoint.path is none"));
}

/// Where a run keeps its state: on the host, or on drives whose files a killed run leaves behind.
class KillProcessTest : public InterruptionProcessTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    const std::string reason = GetParam() ? test::why_no_drive(path(".")) : "";
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  static Arguments long_run(Arguments overrides) {
    overrides.emplace_back("train.steps=80");
    if (GetParam()) {
      overrides.insert(overrides.end(),
                       {"memory.device=128KiB", "memory.nvme.path=.", "memory.placement.optimizer_state=nvme",
                        "memory.placement.parameters=nvme"});
    }
    return saving(overrides);
  }
};
INSTANTIATE_TEST_SUITE_P(, KillProcessTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "with_drives" : "without_drives"; });

// Invariant: A crash loses no reported checkpoint.
TEST_P(KillProcessTest, AtAnyMomentLosesNothingThatWasSaved) {
  const std::string straight = state_hash(train("run.yaml", {"train.steps=80"}));
  std::mt19937 random(7);
  for (int kill = 0; kill < 5; ++kill) {
    LinePipe metrics(path("metrics"));
    Process run = start(long_run({"checkpoint.every=1", "report.metrics=metrics"}));
    // The fourth step is reported after the save of the third began, and that after the second was saved:
    // every run makes some progress.
    ASSERT_TRUE(metrics.wait_for_lines(4));
    metrics.listen_for(std::uniform_real_distribution<>(0, 0.02)(random));
    run.send(SIGKILL);
    EXPECT_EQ(run.wait().status, -SIGKILL);
  }
  const Outcome resumed = strata(long_run({}));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming from out/step-"));
  EXPECT_THAT(resumed.out, HasSubstr("state hash " + straight));
}

TEST_F(InterruptionProcessTest, OfARunByASecondOneOnItsDriveFolderIsRefused) {
  if (const std::string reason = test::why_no_drive(path(".")); !reason.empty()) GTEST_SKIP() << reason;
  const Arguments drives = {"memory.nvme.path=.", "memory.placement.optimizer_state=nvme"};
  Arguments slow = drives;
  slow.insert(slow.end(),
              {"train.steps=500", "report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"});
  LinePipe metrics(path("metrics"));
  Process first = start(train("run.yaml", slow));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  expect_sentence(strata(train("run.yaml", drives)), 2, {"process " + std::to_string(first.id())});
  EXPECT_TRUE(metrics.wait_for_lines(1));
}

TEST_F(InterruptionProcessTest, OfARunByASecondOneInItsCheckpointPathIsRefused) {
  LinePipe metrics(path("metrics"));
  Process first = start(
      saving({"train.steps=500", "report.metrics=metrics", "memory.device=128KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  std::filesystem::create_directory(path("out/step-00000009.tmp"));
  expect_sentence(strata(saving({})), 2,
                  {"checkpoint.path out is in use by process " + std::to_string(first.id())});
  EXPECT_TRUE(std::filesystem::exists(path("out/step-00000009.tmp")));
  EXPECT_TRUE(metrics.wait_for_lines(1));
}

TEST_F(InterruptionProcessTest, ByAFullDiskLeavesTheCheckpointBefore) {
  const std::string straight = state_hash(train("run.yaml"));
  ASSERT_EQ(strata(saving({"train.steps=2"})).status, 0);
  const Outcome full = strata(saving({"train.steps=4"}), {.folder = {}, .largest_file = 64 * KiB});
  expect_sentence(full, 1,
                  {"the checkpoint of step 4 was not saved", "out/step-00000002 before it is untouched"});
  const Outcome beside =
      strata(saving({"train.steps=6", "checkpoint.every=2"}), {.folder = {}, .largest_file = 64 * KiB});
  expect_sentence(beside, 1,
                  {"the checkpoint of step 4 was not saved", "out/step-00000002 before it is untouched"});
  EXPECT_TRUE(has_checkpoint("step-00000002"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 1);
  const Outcome resumed = strata(saving({}));
  EXPECT_THAT(resumed.err, HasSubstr("resuming from out/step-00000002"));
  EXPECT_THAT(resumed.out, HasSubstr("state hash " + straight));
}

TEST_F(InterruptionProcessTest, OfAFinishedRunLeavesNothingToDo) {
  const std::string straight = state_hash(saving({}));
  const nlohmann::json again = report(saving({}));
  EXPECT_EQ(again["loss"].size(), 0U);
  EXPECT_EQ(again["steps"], 6);
  EXPECT_EQ(again["state_hash"], straight);
}

TEST_F(InterruptionProcessTest, IsForgottenByAFreshStart) {
  ASSERT_EQ(strata(saving({"train.steps=3"})).status, 0);
  Arguments fresh = saving({});
  fresh.emplace_back("--fresh");
  EXPECT_EQ(report(fresh)["loss"].size(), 6U);
  EXPECT_TRUE(has_checkpoint("set-aside/step-00000003")) << "what is forgotten is kept";
}

}  // namespace
}  // namespace strata::test
