// What was measured of kernels' calls, what follows for others, and timelines that are made of it.
#include "engine/plan/cost/kernel_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "engine/config/run_config.h"
#include "engine/plan/cost/timeline.h"
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

/// A program's passes take what their calls take, also those that go over many rows in chunks.
TEST(KernelTimes, MakeUpThePassesOfAProgram) {
  for (const std::int64_t length : {8, 8192}) {
    RunConfig config = tiny_config();
    config.data.sequence_length = length;
    const ModelPlan plan = make_plan(config, tiny_model(2, true, 50257));
    const Program& program = plan.training.program;
    MachineRates rates = planning_rates(config);
    std::map<std::string, double> named;
    std::int64_t most_repeated = 0;
    for (std::int32_t work = 0; work < std::ssize(program.works); ++work) {
      for (const auto& [call, times] : *program.works[work]) {
        const double seconds = 1.0 + static_cast<double>(named.size());
        rates.kernels.add(call, named.try_emplace(call.name, seconds).first->second);
        most_repeated = std::max(most_repeated, times);
      }
    }
    EXPECT_GE(most_repeated,
              length == 8 ? 1 : 12);  // the head goes over 12 chunks of 640 rows, and a shorter one
    const InstructionCosts costs(program, rates);
    for (const Instruction& instruction : program.instructions) {
      if (instruction.work < 0) continue;
      double seconds = 0, flops = 0;
      for (const auto& [call, times] : *program.works[instruction.work]) {
        seconds += static_cast<double>(times) * named.at(call.name);
        flops += static_cast<double>(times) * call.flops;
      }
      EXPECT_DOUBLE_EQ(costs.seconds_of(instruction), seconds);
      EXPECT_DOUBLE_EQ(instruction.flops, flops);
    }
  }
}

}  // namespace
}  // namespace strata::test
