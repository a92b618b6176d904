// Products by cuBLASLt and attention by cuDNN against the reference, on operands that suit both.
#ifdef STRATA_CUDA
#include <gtest/gtest.h>

#include <vector>

#include "engine/device/cuda/attention_chunk.h"
#include "tests/device/implementations.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

std::vector<ImplementationChoice> cuda_alone() {
  std::vector<ImplementationChoice> choices = implementation_choices();
  std::erase_if(choices, [](const ImplementationChoice& choice) { return choice.name != "cuda"; });
  return choices;
}

class CudaLibraries : public EveryImplementation {
 protected:
  void expect_attention_agrees_both_ways(const AttentionShape& shape, const Documents& documents = {}) {
    for (Scenario scenario : {attention_scenario(shape, DType::bf16, 0, documents),
                              attention_backward_scenario(shape, DType::bf16, 0, documents)}) {
      // log_sum_exp adds products of bf16 numbers in another order.
      scenario.fp32_tolerance = 1e-3;
      expect_agrees(scenario);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, CudaLibraries, ::testing::ValuesIn(cuda_alone()), &name_of_choice);

TEST_P(CudaLibraries, AlignedProductsWithBiasAndAccumulationAgree) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const bool transposed : {false, true}) {
      for (const std::int64_t padding : {0, 8}) {
        expect_agrees(matmul_scenario({.m = 200,
                                       .n = 72,
                                       .k = 264,
                                       .transpose_a = transposed,
                                       .transpose_b = !transposed,
                                       .accumulate = true,
                                       .bias = true,
                                       .padding = padding,
                                       .dtype = dtype,
                                       .out = dtype}));
      }
    }
  }
}

TEST_P(CudaLibraries, ALongDepthIsSplitTheSameWayEveryTime) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    expect_agrees(matmul_scenario({.m = 64,
                                   .n = 64,
                                   .k = 8192,
                                   .transpose_a = true,
                                   .accumulate = true,
                                   .dtype = dtype,
                                   .out = DType::fp32}));
  }
}

TEST_P(CudaLibraries, AttentionAgreesBothWays) {
  const AttentionShape shape{
      .batch = 2, .sequence = 128, .heads = 4, .kv_heads = 4, .head_dimension = 64, .scale = 0.125F};
  std::vector<AttentionShape> shapes(7, shape);
  shapes[1].kv_heads = 2;
  shapes[2].sequence = 200;
  shapes[3].head_dimension = 128;
  shapes[4].head_dimension = 80;
  shapes[5].window = 70;
  shapes[6].sequence = 530;
  shapes[6].window = 1;
  for (const AttentionShape& each : shapes) expect_attention_agrees_both_ways(each);
}

TEST_P(CudaLibraries, AttentionInChunksOfHeadsIsAttention) {
  const AttentionShape shape{
      .batch = 1, .sequence = 6000, .heads = 16, .kv_heads = 8, .head_dimension = 8, .scale = 0.35F};
  ASSERT_LT(backward_chunk(shape)->kv_heads, shape.kv_heads);
  expect_attention_agrees_both_ways(shape);
}

TEST_P(CudaLibraries, AttentionWithinDocumentsAgreesBothWays) {
  const AttentionShape shape{
      .batch = 2, .sequence = 400, .heads = 4, .kv_heads = 2, .head_dimension = 64, .scale = 0.125F};
  for (const Documents& documents : {Documents{1}, {400}, {100, 3, 64}, {65, 128, 129, 78}, {1000, 1}})
    expect_attention_agrees_both_ways(shape, documents);
  std::vector<AttentionShape> shapes(3, shape);
  shapes[0].window = 70;
  shapes[1].head_dimension = 128;
  shapes[2].sequence = 65;
  for (const AttentionShape& each : shapes) expect_attention_agrees_both_ways(each, {230, 66, 1, 103});
}

TEST_P(CudaLibraries, AttentionWithinDocumentsInChunksOfHeadsIsAttention) {
  const AttentionShape shape{
      .batch = 1, .sequence = 6000, .heads = 16, .kv_heads = 8, .head_dimension = 8, .scale = 0.35F};
  ASSERT_LT(backward_chunk(shape)->kv_heads, shape.kv_heads);
  expect_attention_agrees_both_ways(shape, {3400, 20, 90, 400, 2090});
}

}  // namespace
}  // namespace strata
#endif
