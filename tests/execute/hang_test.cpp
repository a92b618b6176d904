// What a run does while something takes long or hangs. The run waits for what is at work, however long it
// takes. It tells at once of what hangs, and of a failure whose run cannot be unwound yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/config/run_config.h"
#include "offload/io_faults.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::run;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

RunConfig saving_run(const TemporaryFolder& folder) {
  RunConfig config = tiny_run(folder.path());
  config.checkpoint.path = (folder.path() / "out").string();
  config.checkpoint.every = 1;
  return config;
}

/// All state on a drive in the folder.
RunConfig spilling_run(const TemporaryFolder& folder) {
  RunConfig config = saving_run(folder);
  config.memory.device = test::smallest_bytes(config);
  config.memory.host = kUnlimited;
  config.memory.nvme_path = {folder.path().string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  return config;
}

// Invariant (LongInstruction.*): Nothing waits forever and nothing at work is ended.
TEST(LongInstruction, OfAnyHostLaneEndsNoRun) {
  class SlowDisk : public FileSystem {
   public:
    void sync(int descriptor, const std::filesystem::path& path) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      FileSystem::sync(descriptor, path);
    }
  } files;
  const TemporaryFolder folder;
  EXPECT_EQ(run(saving_run(folder), {.watchdog_seconds = 0.05, .files = &files}).result.saves, 4);
}

/// A step of the device takes longer than the watchdog's time, none of its instructions does.
TEST(LongInstruction, ThatWaitsForAStepOfADeviceEndsNoRun) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 1;
  config.memory.device = test::smallest_bytes(config);
  test::QueuedDevice device({.threads = 2, .link = {.to_device = 100e3, .to_host = {}}});
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(run(config, {.device = &device, .watchdog_seconds = 0.5}).result.counters.step, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(took.count(), 2) << "the test shows nothing";
}

/// The drive answers once the watchdog has spoken: the program would leave then; the test goes on, to the
/// same bits.
TEST(Hang, OfADriveIsToldOfWhileTheRunWaits) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  const std::string expected = run(tiny_run(folder.path())).result.state_hash;
  struct HangsOnce : IoFaults {
    BlockFault before(const BlockAttempt&) override {
      if (attempts++ == 40) spoken.wait();
      return {};
    }
    std::atomic<int> attempts = 0;
    std::promise<std::string> speak;
    std::shared_future<std::string> spoken = speak.get_future().share();
  } faults;
  const Watchdog watchdog(0.5, [&, told = false](const std::string& hang) mutable {
    if (!std::exchange(told, true)) faults.speak.set_value(hang);
  });
  EXPECT_EQ(run(spilling_run(folder), {.faults = &faults}).result.state_hash, expected);
  EXPECT_GT(faults.attempts, 40);
  EXPECT_THAT(faults.spoken.get(),
              AllOf(HasSubstr("strata-spill/spill"), HasSubstr("has not advanced for 0.5 s")));
}

/// The disk of checkpoints hangs until the failure of another lane is told.
TEST(Hang, OfOneLaneDoesNotKeepBackWhyAnotherFailed) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  struct HangingSync : FileSystem {
    void sync(int descriptor, const std::filesystem::path& path) override {
      if (path.string().find("step-") != std::string::npos) {
        hanging = true;
        EXPECT_EQ(told.wait_for(std::chrono::minutes(1)), std::future_status::ready);
      }
      FileSystem::sync(descriptor, path);
    }
    std::atomic<bool> hanging = false;
    std::promise<std::string> tell;
    std::shared_future<std::string> told = tell.get_future().share();
  } files;
  struct FailsThen : IoFaults {
    explicit FailsThen(const std::atomic<bool>& then) : fails(then) {}
    BlockFault before(const BlockAttempt&) override { return {.error = fails ? EIO : 0}; }
    const std::atomic<bool>& fails;
  } faults(files.hanging);
  const auto on_failure = [&](const std::exception& error) { files.tell.set_value(error.what()); };
  EXPECT_THROW(run(spilling_run(folder), {.faults = &faults, .files = &files, .on_failure = on_failure}),
               IoError);
  EXPECT_THAT(files.told.get(), HasSubstr("Input/output error"));
}

}  // namespace
}  // namespace strata
