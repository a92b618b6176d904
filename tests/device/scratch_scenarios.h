// A call of every kernel that any device has scratch for, in several dtypes.
#pragma once

#include "base/precision.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/row_calls.h"
#include "engine/device/scratch_rules.h"
#include "tests/device/expert_scenarios.h"
#include "tests/device/head_norm_scenarios.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {

inline std::vector<Scenario> calls_with_scratch() {
  std::vector<Scenario> calls;
  const AttentionShape shape{
      .batch = 2, .sequence = 140, .heads = 4, .kv_heads = 2, .head_dimension = 32, .scale = 0.2F};
  calls.push_back(matmul_scenario(
      {.m = 301, .n = 130, .k = 257, .padding = 3, .dtype = DType::bf16, .rounding = Rounding::e4m3}));
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    calls.push_back(
        matmul_scenario({.m = 301, .n = 130, .k = 257, .bias = true, .dtype = dtype, .out = dtype}));
    calls.push_back(matmul_scenario(
        {.m = 130, .n = 301, .k = 257, .transpose_a = true, .accumulate = true, .dtype = dtype}));
    calls.push_back(column_sums_scenario(dtype, 700, 96));
    calls.push_back(column_sums_scenario(dtype, 3, 96));
    calls.push_back(column_dots_scenario(dtype, 700, 96, true));
    calls.push_back(norm_scenario(NormKind::layer_norm, dtype, 40, 768, true));
    calls.push_back(shared_norm_scenario(dtype, 40, 768));
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      for (const std::int64_t padding : {0, 1})
        calls.push_back(norm_backward_scenario(kind, dtype, 300, 768, GradientPlace::own, padding));
    }
    calls.push_back(norm_backward_scenario(NormKind::rms_norm, dtype, 20, 5, GradientPlace::own));
    calls.push_back(head_norm_scenario(dtype, {3, 100, 2, 3, 64, 8}));
    calls.push_back(head_norm_scenario(dtype, {3, 100, 2, 3, 34}));
    calls.push_back(attention_scenario(shape, dtype));
    calls.push_back(attention_backward_scenario(shape, dtype));
    calls.push_back(attention_scenario(shape, dtype, 8, {100, 30}));
    calls.push_back(attention_backward_scenario(shape, dtype, 8, {100, 30}));
    calls.push_back(cached_attention_scenario(shape, dtype, {140, 7}));
    calls.push_back(embedding_backward_scenario(dtype, 3, 300, 40, true));
    calls.push_back(
        embedding_backward_scenario(dtype, 3, 300, 40, true, 1, kNoRow, /*table=*/false, {}, {7, 500}));
    calls.push_back(cross_entropy_scenario(dtype, 20, 2000, 0));
    calls.push_back(parts_of_cross_entropy_scenario(dtype, 20, 6000, 0));
    calls.push_back(route_backward_scenario(dtype, 20, 300, 2, true, false));
    for (const bool transpose_b : {false, true})
      calls.push_back(grouped_product_scenario(dtype, {130, 0, 600, 7}, 257, 800, transpose_b));
    calls.push_back(grouped_gradient_scenario(dtype, {130, 0, 600, 7}, 600, 130));
  }
  return calls;
}

}  // namespace strata
