// The executor on a device that works in the background: what it issues must wait for what it needs, and no
// more than that may differ from the CPU device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::QueuedDevice;
using test::resident_bytes;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Invariant of devices (BackgroundDevice.*): A background device changes no result. A device whose streams
// work in the background gives the bits of the CPU device. The test `execute.queued` of ctest runs other
// cases on such a device.
TEST(BackgroundDevice, StandsForTheCpuDeviceIfTheEnvironmentSaysSo) {
  const char* const before = std::getenv("STRATA_QUEUED_DEVICE");
  ::setenv("STRATA_QUEUED_DEVICE", "1", 1);
  EXPECT_FALSE(test::make_cpu_device({})->host_addressable());
  ::unsetenv("STRATA_QUEUED_DEVICE");
  EXPECT_TRUE(test::make_cpu_device({})->host_addressable());
  if (before != nullptr) ::setenv("STRATA_QUEUED_DEVICE", "1", 1);
}

TEST(BackgroundDevice, ComputesTheBitsOfTheCpuDevice) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const std::string expected = run(config).result.state_hash;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    config.plan.order = order;
    const Bytes resident = resident_bytes(config), smallest = smallest_bytes(config);
    for (const Bytes budget : {kUnlimited, std::max(smallest, resident / 2), smallest}) {
      config.memory.device = budget;
      for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
        config.plan.lanes = lanes;
        QueuedDevice device({.threads = 2, .link = {}});
        const RunOutcome outcome = run(config, {.device = &device});
        EXPECT_EQ(outcome.result.state_hash, expected)
            << "budget " << budget << ", order " << static_cast<int>(order) << ", lanes "
            << static_cast<int>(lanes);
        expect_the_plan_was_exact(outcome);
      }
    }
  }
}

TEST(BackgroundDevice, ResumesFromStateThatTheHostCannotAddress) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  QueuedDevice device({.threads = 2, .link = {}});
  config.train.steps = 2;
  run(config, {.device = &device});
  config.train.steps = 4;
  EXPECT_EQ(run(config, {.device = &device}).result.state_hash, expected);
}

TEST(BackgroundDevice, StopsAtAWholeStep) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.memory.device = resident_bytes(config) / 2;
  config.train.steps = 6;
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  QueuedDevice device({.threads = 2, .link = {}});
  std::atomic<bool> stop = false;
  test::StopAfter listener(3, stop);
  const TrainResult stopped = run(config, {.device = &device, .stop = &stop, .listener = &listener}).result;
  EXPECT_EQ(stopped.counters.step, 3);
  EXPECT_EQ(run(config, {.device = &device}).result.state_hash, expected);
}

/// Calls back at the end of a step.
class OnStep : public TrainListener {
 public:
  explicit OnStep(std::function<void()> callback) : callback_(std::move(callback)) {}
  void on_step(const StepReport&) override { callback_(); }

 private:
  std::function<void()> callback_;
};

TEST(BackgroundDevice, ThatFailsEndsTheRunWithItsError) {
  const TemporaryFolder folder;
  const RunConfig config = tiny_run(folder.path());
  QueuedDevice device({.threads = 2, .link = {}});
  OnStep listener([&] { device.fail(); });
  try {
    run(config, {.device = &device, .listener = &listener});
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the device failed"));
  }
}

TEST(BackgroundDevice, ThatHangsEndsTheRunNamingTheInstruction) {
  const TemporaryFolder folder;
  const RunConfig config = tiny_run(folder.path());
  QueuedDevice device({.threads = 2, .link = {}});
  OnStep listener([&] { device.hang(); });
  try {
    run(config, {.device = &device, .watchdog_seconds = 0.2, .listener = &listener});
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the device did not finish '"),
                                    HasSubstr("nor anything else, within 0.2 s")));
  }
}

}  // namespace
}  // namespace strata
