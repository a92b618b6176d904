// Kernels set their scratch up when they first see a shape; after that a step allocates nothing that grows
// with the problem.
#include <gtest/gtest.h>

#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/norm_calls.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/kernel_scenarios.h"
#include "tests/support/allocations.h"

namespace strata {
namespace {

std::vector<Scenario> every_kernel() {
  const AttentionShape shape{
      .batch = 2, .sequence = 140, .heads = 4, .kv_heads = 2, .head_dimension = 32, .scale = 0.2F};
  constexpr DType bf16 = DType::bf16;
  return {
      matmul_scenario({.m = 301, .n = 130, .k = 257, .bias = true, .dtype = bf16, .out = bf16}),
      matmul_scenario({.m = 130, .n = 301, .k = 257, .transpose_a = true, .accumulate = true, .dtype = bf16}),
      matmul_scenario({.m = 130, .n = 301, .k = 257, .dtype = bf16, .rounding = Rounding::e4m3}),
      column_sums_scenario(bf16, 300, 768),
      norm_scenario(NormKind::layer_norm, bf16, 100, 768, true),
      shared_norm_scenario(bf16, 100, 768),
      norm_backward_scenario(NormKind::layer_norm, bf16, 100, 768, GradientPlace::own),
      attention_scenario(shape, bf16),
      attention_backward_scenario(shape, bf16),
      rope_scenario(bf16, 3, 100, 4, 64, false),
      activation_scenario(Activation::gelu_tanh, bf16, 100, 1030, 0, false),
      gated_backward_scenario(Activation::silu, bf16, 100, 515, 0, true),
      cross_entropy_scenario(bf16, 20, 2000, 0),
      parts_of_cross_entropy_scenario(bf16, 20, 2000, 0),
      route_scenario(bf16, 300, 130, 4, true),
      route_backward_scenario(bf16, 300, 130, 4, true, true),
      group_rows_scenario(1030, 300, 2),
      count_rows_scenario({3, 0, 70}),
      combine_rows_scenario(bf16, 100, 3, 770, true),
      combine_rows_backward_scenario(bf16, 100, 3, 770, true),
      grouped_product_scenario(bf16, {130, 0, 600, 7}, 257, 800, true),
      grouped_gradient_scenario(bf16, {130, 0, 600, 7}, 257, 800)};
}

// Invariant: A step allocates nothing.
TEST(Kernels, AllocateNothingLargeForAShapeTheyHaveSeen) {
  CpuDevice device({.threads = 2, .link = {}});
  for (Scenario& scenario : every_kernel()) {
    const std::unique_ptr<Stream> stream = device.make_stream();
    std::vector<Matrix> views;
    for (OperandMemory& operand : scenario.operands) views.push_back(operand.view());
    scenario.call(stream->kernels(), views);
    const std::int64_t before = test::allocations_so_far().large;
    for (int repeat = 0; repeat < 5; ++repeat) scenario.call(stream->kernels(), views);
    EXPECT_EQ(test::allocations_so_far().large, before) << scenario.name;
  }
  EXPECT_GT(test::allocations_so_far().large, 0) << "the operands themselves must have been counted";
}

}  // namespace
}  // namespace strata
