// Which bits do not depend on the processor's instruction set, as docs/explanation/numbers.md promises.
// AdamW, the gradient's norm and sums over ranks have such tests of their own.
#include "base/block_codes.h"
#include "engine/device/activation.h"
#include "engine/device/row_calls.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/kernel_scenarios.h"
#include "tests/support/highway_target.h"

namespace strata {
namespace {

std::vector<OperandMemory> run_on(std::int64_t target, const Scenario& scenario) {
  const OnHighwayTarget only(target);
  return run_on_cpu(scenario, 2);
}

/// The targets of this process, the best first.
std::vector<std::int64_t> targets_that_fuse() {
  std::vector<std::int64_t> targets = highway_targets();
#if HWY_ARCH_X86
  std::erase_if(targets, [](std::int64_t target) { return target > HWY_AVX2; });
#endif
  return targets;
}

void expect_the_same_bits(const Scenario& scenario, const std::vector<std::int64_t>& targets) {
  if (targets.empty()) return;  // of a process that is capped below them
  const std::vector<OperandMemory> expected = run_on(targets.front(), scenario);
  for (const std::int64_t target : targets) {
    const std::vector<OperandMemory> actual = run_on(target, scenario);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i].memory() == expected[i].memory())
          << scenario.name << ", operand " << i << " on " << hwy::TargetName(target);
    }
  }
}

// Invariant (EveryVectorTarget.*): Every instruction set computes right.
TEST(EveryVectorTarget, GivesTheSameBitsWhereNothingIsFusedOrSummedAcrossAVector) {
  for (const DType dtype : kDTypes) {
    const Scenario scenarios[] = {column_sums_scenario(dtype, 130, 65),
                                  column_dots_scenario(dtype, 130, 65, true),
                                  column_scale_scenario(dtype, 13, 65, true, false),
                                  dropout_scenario(dtype, 13, 65, 0.5F, false),
                                  decode_blocks_scenario(BlockFormat::nf4, dtype, 1000, 64, 3),
                                  decode_blocks_scenario(BlockFormat::int8, dtype, 1000, 64, 3),
                                  add_scenario(dtype, 9, 1030, 3, false),
                                  scale_scenario(dtype, 9, 1030, 3, false),
                                  blend_scenario(dtype, 9, 1030, 3, false),
                                  cast_scenario(DType::fp32, dtype, 9, 1030),
                                  cast_scenario(dtype, DType::fp32, 9, 1030),
                                  zero_scenario(dtype, 9, 1030, 3),
                                  copy_rows_scenario(dtype, 65, 3),
                                  sum_rows_scenario(dtype, 65, 0, std::int64_t{11} * 65),
                                  embedding_scenario(dtype, 3, 17, 65, true),
                                  embedding_backward_scenario(dtype, 3, 17, 65, true),
                                  embedding_scenario(dtype, 3, 17, 65, true, 1, FirstRow(5))};
    for (const Scenario& scenario : scenarios) {
      expect_the_same_bits(scenario, highway_targets());
    }
  }
  expect_the_same_bits(group_rows_scenario(300, 7, 2), highway_targets());
  expect_the_same_bits(count_rows_scenario({3, 0, 70}), highway_targets());
  expect_the_same_bits(load_balance_scenario(65, true), highway_targets());
}

// Invariant (VectorTargetsThatFuse.*): Every instruction set computes right.
TEST(VectorTargetsThatFuse, GiveTheSameActivationsAndRotations) {
  for (const DType dtype : kDTypes) {
    std::vector<Scenario> scenarios = {rope_scenario(dtype, 2, 9, 2, 34, false)};
    for (const Activation kind : kActivations) {
      scenarios.push_back(activation_scenario(kind, dtype, 9, 1030, 3, false));
      scenarios.push_back(
          activation_backward_scenario(kind, dtype, 9, 1030, 3, ActivationGradientPlace::own));
      scenarios.push_back(gated_scenario(kind, dtype, 9, 1030, 3));
      scenarios.push_back(gated_backward_scenario(kind, dtype, 9, 1030, 3, false));
      scenarios.push_back(gated_again_scenario(kind, dtype, 9, 1030, 3, false));
      scenarios.push_back(activation_again_scenario(kind, dtype, 9, 1030, 3, ActivationGradientPlace::own));
    }
    for (const Scenario& scenario : scenarios) expect_the_same_bits(scenario, targets_that_fuse());
  }
}

}  // namespace
}  // namespace strata
