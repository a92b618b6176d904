// What train.precision: auto becomes.
#include "engine/run/tune/precision.h"
#include "engine/config/run_config.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using ::testing::HasSubstr;

const PrecisionFacts kNewRun, kWithoutBf16 = {.stored = {}, .without_bf16 = "this CPU"};

PrecisionFacts going_on_in(const Precision& precision) {
  return {.stored = {{"out/step-00000006", precision}}, .without_bf16 = "this CPU"};
}

// Invariant of numbers (AutomaticPrecision.*): A run has one precision. The precision that `auto` chose is
// the same on all ranks, and it stays that of the checkpoint on any CPU.
TEST(AutomaticPrecision, IsFp32OnlyWhereACpuHasNoBf16Instructions) {
  RunConfig config;
  EXPECT_EQ(choose_precision(config, kNewRun).precision, DType::bf16);
  EXPECT_EQ(choose_precision(config, kWithoutBf16).precision, DType::fp32);
  EXPECT_THAT(choose_precision(config, kWithoutBf16).why, HasSubstr("this CPU has no bf16 instructions"));
  config.device.kind = DeviceKind::cuda;
  EXPECT_EQ(choose_precision(config, kWithoutBf16).precision, DType::bf16);
}

TEST(AutomaticPrecision, OfARunThatGoesOnIsThatOfItsCheckpoint) {
  RunConfig config;
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    config.device.kind = device;
    for (const Precision& stored : kPrecisions) {
      const PrecisionChoice choice = choose_precision(config, going_on_in(stored));
      EXPECT_EQ(choice.precision, stored);
      EXPECT_THAT(choice.why, HasSubstr("resumes from out/step-00000006"));
    }
  }
}

TEST(AutomaticPrecision, IsBf16WhereAnotherKeyNeedsIt) {
  RunConfig split, without, reduced;
  split.optimizer.master = MasterFormat::split;
  without.optimizer.master = MasterFormat::none;
  reduced.parallel.reduce_dtype = ReduceDtype::bf16;
  for (const PrecisionFacts& facts : {kWithoutBf16, going_on_in(DType::fp32)}) {
    EXPECT_EQ(choose_precision(split, facts),
              (PrecisionChoice{DType::bf16, "optimizer.master split needs it"}));
    EXPECT_EQ(choose_precision(without, facts),
              (PrecisionChoice{DType::bf16, "optimizer.master none needs it"}));
    EXPECT_EQ(choose_precision(reduced, facts),
              (PrecisionChoice{DType::bf16, "parallel.reduce_dtype bf16 needs it"}));
  }
  for (const RunConfig& config : {split, without, reduced})
    EXPECT_EQ(choose_precision(config, going_on_in(kFp8)).precision, kFp8);
}

TEST(AutomaticPrecision, IsFp8WhereParametersAreKeptSo) {
  RunConfig trained, frozen;
  trained.memory.trained_as = ParameterFormat::fp8;
  frozen.memory.frozen_as = ParameterFormat::fp8;
  for (const PrecisionFacts& facts : {kNewRun, kWithoutBf16, going_on_in(DType::fp32)}) {
    EXPECT_EQ(choose_precision(trained, facts), (PrecisionChoice{kFp8, "memory.trained_as fp8 needs it"}));
    EXPECT_EQ(choose_precision(frozen, facts), (PrecisionChoice{kFp8, "memory.frozen_as fp8 needs it"}));
    RunConfig in_blocks;
    in_blocks.memory.frozen_as = ParameterFormat::nf4;
    EXPECT_EQ(choose_precision(in_blocks, facts), choose_precision({}, facts));
  }
}

}  // namespace
}  // namespace strata
