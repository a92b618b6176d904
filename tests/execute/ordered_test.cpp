// What the executor issues to a device has the order that it needs, on every stream: see
// tests/support/ordered_device.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "tests/execute/support.h"
#include "tests/support/ordered_device.h"

namespace strata {
namespace {

using test::OrderedDevice;
using ::testing::IsEmpty;

class OrderOfCopiesAndKernels : public ::testing::Test {
 protected:
  OrderOfCopiesAndKernels() { config_.train.steps = 3; }

  test::TemporaryFolder folder_;
  RunConfig config_ = test::tiny_run(folder_.path());
};

// Invariant of devices (OrderOfCopiesAndKernels.*): Copies and kernels are ordered. Two operations that touch
// the same memory have a known order if one of them writes. The order comes from a stream, an event or a wait
// of the host. A lost wait is found.
TEST_F(OrderOfCopiesAndKernels, IsThereInEveryPlan) {
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    config_.plan.order = order;
    const Bytes resident = test::resident_bytes(config_), smallest = test::smallest_bytes(config_);
    for (const Bytes budget : {resident, std::max(smallest, resident / 2), smallest}) {
      for (const double clip : {0.0, 1.0}) {
        SCOPED_TRACE(::testing::Message() << "budget " << budget << ", clip " << clip);
        config_.memory.device = budget;
        config_.optimizer.clip_norm = clip;
        OrderedDevice device({.threads = 1, .link = {}});
        test::run(config_, {.device = &device});
        EXPECT_GT(device.pieces_of_work(), 100);
        EXPECT_THAT(device.without_order(), IsEmpty());
      }
    }
  }
}

/// Not each wait is needed, since what comes later may wait for more; but many are, and losing one is seen.
TEST_F(OrderOfCopiesAndKernels, IsMissedWhereAWaitIsLost) {
  config_.memory.device = test::smallest_bytes(config_);
  config_.train.steps = 1;
  const auto run = [&](std::int64_t lost_wait) {
    auto device = std::make_unique<OrderedDevice>(CpuDeviceOptions{.threads = 1, .link = {}});
    device->lose_wait(lost_wait);
    test::run(config_, {.device = device.get()});
    return device;
  };
  constexpr std::int64_t kNone = -1;
  const std::int64_t waits = run(kNone)->waits();
  ASSERT_GT(waits, 50);
  std::int64_t missed = 0;
  for (std::int64_t wait = 0; wait < waits; wait += 4) missed += run(wait)->without_order().empty() ? 0 : 1;
  EXPECT_GT(missed, 3);
}

}  // namespace
}  // namespace strata
