// Placement changes nothing: every kernel gives the same bits for 1, 2 and 3 threads, at sizes that are split
// among them.
#include "base/block_codes.h"
#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/head_norm_scenarios.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

// Invariant (AnyThreadCount.*): Placement changes no result.
TEST(AnyThreadCount, GivesTheSameProduct) {
  for (const DType dtype : kDTypes) {
    for (const bool transposed : {false, true}) {
      // A small output with a long depth and a transposed left operand: libraries split such a depth among
      // threads.
      expect_same_bits_for_any_thread_count(matmul_scenario(
          {.m = 64, .n = 64, .k = 8192, .transpose_a = transposed, .accumulate = true, .dtype = dtype}));
      expect_same_bits_for_any_thread_count(matmul_scenario({.m = 301,
                                                             .n = 130,
                                                             .k = 257,
                                                             .transpose_b = transposed,
                                                             .bias = true,
                                                             .dtype = dtype,
                                                             .out = dtype}));
    }
  }
}

TEST(AnyThreadCount, GivesTheSameRoundedProduct) {
  expect_same_bits_for_any_thread_count(
      matmul_scenario({.m = 301, .n = 130, .k = 257, .dtype = DType::bf16, .rounding = Rounding::e4m3}));
}

TEST(AnyThreadCount, GivesTheSameNorms) {
  for (const DType dtype : kDTypes) {
    expect_same_bits_for_any_thread_count(norm_scenario(NormKind::layer_norm, dtype, 200, 768, true));
    expect_same_bits_for_any_thread_count(
        norm_backward_scenario(NormKind::layer_norm, dtype, 300, 768, GradientPlace::own));
    expect_same_bits_for_any_thread_count(
        norm_backward_scenario(NormKind::rms_norm, dtype, 130, 1030, GradientPlace::over_addend));
    expect_same_bits_for_any_thread_count(column_sums_scenario(dtype, 700, 600));
    expect_same_bits_for_any_thread_count(column_dots_scenario(dtype, 700, 600, true));
    expect_same_bits_for_any_thread_count(dropout_scenario(dtype, 70, 600, 0.1F, false));
    expect_same_bits_for_any_thread_count(decode_blocks_scenario(BlockFormat::nf4, dtype, 100000, 37, 5));
    expect_same_bits_for_any_thread_count(shared_norm_scenario(dtype, 300, 768));
  }
}

TEST(AnyThreadCount, GivesTheSameAttention) {
  AttentionShape shape{
      .batch = 2, .sequence = 140, .heads = 4, .kv_heads = 2, .head_dimension = 32, .scale = 0.2F};
  for (const DType dtype : kDTypes) {
    for (const float soft_cap : {0.0F, 2.0F}) {
      shape.soft_cap = soft_cap;
      expect_same_bits_for_any_thread_count(attention_scenario(shape, dtype));
      expect_same_bits_for_any_thread_count(attention_backward_scenario(shape, dtype));
      std::vector<std::int32_t> lengths(static_cast<std::size_t>(shape.batch),
                                        static_cast<std::int32_t>(shape.sequence));
      expect_same_bits_for_any_thread_count(cached_attention_scenario(shape, dtype, lengths));
    }
    expect_same_bits_for_any_thread_count(attention_scenario(shape, dtype, 1, {30, 100}));
    expect_same_bits_for_any_thread_count(attention_backward_scenario(shape, dtype, 1, {30, 100}));
    expect_same_bits_for_any_thread_count(rope_scenario(dtype, 3, 200, 4, 64, false));
    expect_same_bits_for_any_thread_count(head_norm_scenario(dtype, {3, 200, 2, 1, 64}));
  }
}

TEST(AnyThreadCount, GivesTheSameActivations) {
  for (const DType dtype : kDTypes) {
    for (const Activation kind : kActivations) {
      expect_same_bits_for_any_thread_count(activation_scenario(kind, dtype, 200, 1030, 0, false));
      expect_same_bits_for_any_thread_count(
          activation_backward_scenario(kind, dtype, 200, 1030, 0, ActivationGradientPlace::over_x));
      expect_same_bits_for_any_thread_count(gated_scenario(kind, dtype, 200, 515, 0));
      expect_same_bits_for_any_thread_count(gated_backward_scenario(kind, dtype, 200, 515, 0, true));
    }
    expect_same_bits_for_any_thread_count(add_scenario(dtype, 200, 1030, 0, true));
    expect_same_bits_for_any_thread_count(scale_scenario(dtype, 200, 1030, 0, true));
    expect_same_bits_for_any_thread_count(blend_scenario(dtype, 200, 1030, 0, true));
    expect_same_bits_for_any_thread_count(zero_scenario(dtype, 200, 1030, 0));
  }
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    expect_same_bits_for_any_thread_count(cast_scenario(DType::fp32, dtype, 200, 1030));
  }
}

TEST(AnyThreadCount, GivesTheSameEmbeddingAndLoss) {
  for (const DType dtype : kDTypes) {
    expect_same_bits_for_any_thread_count(embedding_scenario(dtype, 3, 100, 768, true));
    expect_same_bits_for_any_thread_count(embedding_backward_scenario(dtype, 3, 100, 768, true));
    expect_same_bits_for_any_thread_count(cross_entropy_scenario(dtype, 60, 1030, 0));
    expect_same_bits_for_any_thread_count(cross_entropy_scenario(dtype, 60, 1030, 0, false, 3));
    expect_same_bits_for_any_thread_count(parts_of_cross_entropy_scenario(dtype, 60, 1030, 0, 3));
    expect_same_bits_for_any_thread_count(copy_rows_scenario(dtype, 8000, 0));
    expect_same_bits_for_any_thread_count(sum_rows_scenario(dtype, 8000, 1000, 70000));
  }
}

TEST(AnyThreadCount, GivesTheSameExperts) {
  for (const DType dtype : kDTypes) {
    expect_same_bits_for_any_thread_count(route_scenario(dtype, 300, 130, 4, true));
    expect_same_bits_for_any_thread_count(route_backward_scenario(dtype, 300, 130, 4, true, true));
    expect_same_bits_for_any_thread_count(combine_rows_scenario(dtype, 100, 3, 770, true));
    expect_same_bits_for_any_thread_count(combine_rows_backward_scenario(dtype, 100, 3, 770, true));
    for (const bool transpose_b : {false, true}) {
      expect_same_bits_for_any_thread_count(
          grouped_product_scenario(dtype, {130, 0, 1100, 7}, 257, 800, transpose_b));
    }
    expect_same_bits_for_any_thread_count(grouped_gradient_scenario(dtype, {130, 0, 1100, 7}, 257, 800));
  }
}

}  // namespace
}  // namespace strata
