// Products by cuBLASLt and attention by cuDNN against the reference, on operands that suit both.
#ifdef STRATA_CUDA
#include <gtest/gtest.h>

#include <vector>

#include "engine/device/attention_calls.h"
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

  /// Checks that a call with more scores than one chunk gives what calls over some of its heads give. The
  /// plain reference would take minutes.
  void expect_heads_make_the_whole(const AttentionShape& shape, const Documents& documents = {}) {
    ASSERT_EQ(shape.batch, 1);
    const std::int64_t columns = shape.heads * shape.head_dimension,
                       kv_columns = shape.kv_heads * shape.head_dimension;
    Scenario scenario;
    scenario.operands = {random_operand(1, DType::bf16, shape.sequence, columns + 2 * kv_columns),
                         random_operand(2, DType::bf16, shape.sequence, columns),
                         index_operand(places_of(shape, documents))};
    const std::size_t inputs = scenario.operands.size();
    for (int of_whole = 0; of_whole < 2; ++of_whole) {
      scenario.operands.push_back(poisoned_operand(DType::bf16, shape.sequence, columns));
      scenario.operands.push_back(poisoned_operand(DType::fp32, shape.heads, shape.sequence));
      scenario.operands.push_back(poisoned_operand(DType::bf16, shape.sequence, columns + 2 * kv_columns));
    }
    scenario.call = [&](Kernels& kernels, const std::vector<Matrix>& x) {
      const Places places = documents.empty() ? Places() : indices_of(x[2]);
      run_heads(kernels, shape, shape.kv_heads, places, x[0], x[1],
                {x[inputs], x[inputs + 1], x[inputs + 2]});
      run_heads(kernels, shape, shape.kv_heads / 4, places, x[0], x[1],
                {x[inputs + 3], x[inputs + 4], x[inputs + 5]});
    };
    implementation().begin_run(0);
    const std::vector<OperandMemory> after = run_scenario(scenario, implementation());
    for (std::size_t i = inputs; i < inputs + 3; ++i)
      EXPECT_LE(relative_error(after[i], after[i + 3]), 1e-3) << "operand " << i;
  }

 private:
  struct Results {
    Matrix out, log_sum_exp, gradient;
  };

  static std::vector<std::int32_t> places_of(const AttentionShape& shape, const Documents& documents) {
    std::vector<std::int32_t> places;
    for (const std::int64_t length : documents)
      for (std::int64_t token = 0; token < length; ++token)
        places.push_back(static_cast<std::int32_t>(token));
    places.resize(static_cast<std::size_t>(shape.sequence));
    return places;
  }

  /// Both passes, `kv_heads` key/value heads at a time.
  static void run_heads(Kernels& kernels, const AttentionShape& shape, std::int64_t kv_heads, Places places,
                        const Matrix& fused, const Matrix& out_gradient, const Results& results) {
    const std::int64_t group = shape.heads / shape.kv_heads, size = shape.head_dimension;
    const auto query = [&](const Matrix& matrix, std::int64_t first) {
      return matrix.column_slice(first * group * size, kv_heads * group * size);
    };
    const auto key = [&](const Matrix& matrix, std::int64_t first) {
      return matrix.column_slice((shape.heads + first) * size, kv_heads * size);
    };
    const auto value = [&](const Matrix& matrix, std::int64_t first) {
      return matrix.column_slice((shape.heads + shape.kv_heads + first) * size, kv_heads * size);
    };
    AttentionShape part = shape;
    part.kv_heads = kv_heads;
    part.heads = kv_heads * group;
    for (std::int64_t first = 0; first < shape.kv_heads; first += kv_heads) {
      const Matrix log_sum_exp = results.log_sum_exp.row_slice(first * group, part.heads);
      kernels.run(AttentionForward{.shape = part,
                                   .query = query(fused, first),
                                   .key = key(fused, first),
                                   .value = value(fused, first),
                                   .out = query(results.out, first),
                                   .log_sum_exp = log_sum_exp,
                                   .places = places});
      kernels.run(AttentionBackward{.shape = part,
                                    .query = query(fused, first),
                                    .key = key(fused, first),
                                    .value = value(fused, first),
                                    .out = query(results.out, first),
                                    .log_sum_exp = log_sum_exp,
                                    .out_gradient = query(out_gradient, first),
                                    .query_gradient = query(results.gradient, first),
                                    .key_gradient = key(results.gradient, first),
                                    .value_gradient = value(results.gradient, first),
                                    .places = places});
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
  expect_heads_make_the_whole(shape);
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
  expect_heads_make_the_whole(shape, {3400, 20, 90, 400, 2090});
}

}  // namespace
}  // namespace strata
#endif
