// The CPU's kernels work in the memory that their rules name, and in no other.
#include <gtest/gtest.h>

#include "base/arena.h"
#include "engine/device/cpu/cpu_device.h"
#include "tests/device/kernel_scenarios.h"
#include "tests/device/scratch_scenarios.h"

namespace strata {
namespace {

// Invariant (CpuScratch.*): A step allocates nothing.
TEST(CpuScratch, OfACallIsWhatTheRulesSay) {
  CpuDevice device({.threads = 3, .link = {}});
  for (Scenario& scenario : calls_with_scratch()) {
    std::vector<Matrix> views;
    for (OperandMemory& operand : scenario.operands) views.push_back(operand.view());
    ScratchMeter meter(device.scratch_rules());
    scenario.call(meter, views);
    const Bytes expected = total(device.scratch_rules().parts(meter.largest()));

    const std::unique_ptr<Stream> growing = device.make_stream();
    scenario.call(growing->kernels(), views);
    EXPECT_EQ(growing->kernels().scratch_bytes(), expected) << scenario.name;

    const std::unique_ptr<Stream> reserved = device.make_stream();
    reserved->kernels().reserve_scratch(meter.largest());
    const std::int64_t before = Arena::made_so_far();
    scenario.call(reserved->kernels(), views);
    EXPECT_EQ(reserved->kernels().scratch_bytes(), expected) << scenario.name;
    EXPECT_EQ(Arena::made_so_far(), before) << scenario.name;
  }
}

/// The largest of each part, not of their sum: one call has the largest area of a thread, another shares
/// most.
TEST(CpuScratch, OfManyCallsHoldsEachOfThem) {
  CpuDevice device({.threads = 2, .link = {}});
  ScratchMeter meter(device.scratch_rules());
  std::vector<Scenario> calls = calls_with_scratch();
  for (int pass = 0; pass < 2; ++pass) {
    const std::unique_ptr<Stream> stream = device.make_stream();
    stream->kernels().reserve_scratch(meter.largest());
    const Bytes before = stream->kernels().scratch_bytes();
    for (Scenario& scenario : calls) {
      std::vector<Matrix> views;
      for (OperandMemory& operand : scenario.operands) views.push_back(operand.view());
      scenario.call(meter, views);
      scenario.call(stream->kernels(), views);
    }
    const bool was_enough = stream->kernels().scratch_bytes() == before;
    EXPECT_EQ(was_enough, pass == 1);
  }
}

}  // namespace
}  // namespace strata
