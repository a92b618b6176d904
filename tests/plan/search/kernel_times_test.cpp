// What was measured of kernels' calls, what follows for others, and timelines that are made of it.
#include "engine/plan/search/kernel_times.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/plan/search/timeline.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

const KernelWork kSmall = {.name = "linear 8x8bf16 8x8bf16 1024", .flops = 1024, .bytes = 384};
const KernelWork kLarge = {.name = "linear 64x8bf16 8x8bf16 8192", .flops = 8192, .bytes = 2176};
const KernelWork kNorm = {.name = "norm 64x8bf16 - 64x8bf16", .bytes = 2048};

KernelTimes measured() {
  KernelTimes times;
  times.add(kSmall, 2);
  times.add(kLarge, 8);
  times.add(kNorm, 1);
  return times;
}

TEST(KernelTimes, OfAMeasuredCallAreThoseMeasured) {
  const KernelTimes times = measured();
  EXPECT_EQ(times.seconds(kSmall), 2);
  EXPECT_EQ(times.seconds(kLarge), 8);
  EXPECT_EQ(times.seconds(kNorm), 1);
  EXPECT_TRUE(times.has(kNorm));
  EXPECT_EQ(times.size(), 3U);
}

TEST(KernelTimes, OfAnotherCallFollowFromTheNearestOfItsOperatorAndType) {
  const KernelTimes times = measured();
  EXPECT_EQ(times.seconds({.name = "linear 16x8bf16 8x8bf16 2048", .flops = 2048}), 4);
  EXPECT_EQ(times.seconds({.name = "linear 128x8bf16 8x8bf16 16384", .flops = 16384}), 16);
  EXPECT_EQ(times.seconds({.name = "norm 128x8bf16 - 128x8bf16", .bytes = 4096}), 2);
  EXPECT_EQ(times.seconds({.name = "linear 8x8fp32 8x8fp32 1024", .flops = 1024}), std::nullopt);
  EXPECT_EQ(times.seconds({.name = "gelu 8x8bf16", .bytes = 384}), std::nullopt);
}

TEST(KernelTimes, AreReadAsTheyWereWritten) {
  EXPECT_EQ(KernelTimes::from_json(measured().to_json()), measured());
  EXPECT_TRUE(measured().is_valid());
  KernelTimes times = measured();
  times.add(kNorm, 0);
  EXPECT_FALSE(times.is_valid());
}

/// A program's passes take what their calls take.
TEST(KernelTimes, MakeUpThePassesOfAProgram) {
  const RunConfig config = tiny_config();
  const Plan plan = make_plan(config, tiny_model());
  const Program& program = plan.training.program;
  MachineRates rates = planning_rates(config);
  std::map<std::string, double> named;
  for (std::int32_t work = 0; work < std::ssize(program.works); ++work) {
    for (const KernelWork& call : *program.works[work])
      rates.kernels.add(call,
                        named.try_emplace(call.name, 1.0 + static_cast<double>(named.size())).first->second);
  }
  const InstructionCosts costs(program, rates);
  std::size_t passes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.work < 0) continue;
    ++passes;
    double seconds = 0, flops = 0;
    for (const KernelWork& call : *program.works[instruction.work]) {
      seconds += named.at(call.name);
      flops += call.flops;
    }
    EXPECT_DOUBLE_EQ(costs.seconds_of(instruction), seconds);
    EXPECT_DOUBLE_EQ(instruction.flops, flops);
  }
  EXPECT_GT(passes, 4U);
}

}  // namespace
}  // namespace strata::test
