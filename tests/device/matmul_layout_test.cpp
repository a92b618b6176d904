#include "engine/device/cuda/matmul_layout.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

/// What cuBLASLt is asked for, as its documentation says it: column-major operands with leading dimensions.
void multiply_column_major(const ColumnMajorProduct& problem, const float* left, const float* right,
                           float* out, const float* bias, const float* addend) {
  for (std::int64_t column = 0; column < problem.columns; ++column) {
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      double sum = bias != nullptr ? bias[row] : 0;
      float& value = out[column * problem.out.leading + row];
      if (problem.accumulate) sum += value;
      if (addend != nullptr) sum += addend[column * problem.addend.leading + row];
      for (std::int64_t i = 0; i < problem.depth; ++i) {
        const ColumnMajorProduct::Operand &l = problem.left, &r = problem.right;
        sum += static_cast<double>(l.transpose ? left[row * l.leading + i] : left[i * l.leading + row]) *
               (r.transpose ? right[i * r.leading + column] : right[column * r.leading + i]);
      }
      value = static_cast<float>(sum);
    }
  }
}

class ColumnMajorKernels final : public Kernels {
 public:
  void run(const KernelCall& call) override {
    const auto& product = *call.as<Product>();
    const ColumnMajorProduct problem = column_major(product);
    EXPECT_EQ(problem.bias_alignment > 0, static_cast<bool>(product.bias));
    multiply_column_major(problem, product.b.row<float>(0), product.a.row<float>(0),
                          product.out.row<float>(0), product.bias ? product.bias.row<float>(0) : nullptr,
                          product.addend ? product.addend.row<float>(0) : nullptr);
  }
};

std::vector<OperandMemory> run(Kernels& kernels, const Scenario& scenario) {
  std::vector<OperandMemory> operands = scenario.operands;
  std::vector<Matrix> views;
  views.reserve(operands.size());
  for (OperandMemory& operand : operands) views.push_back(operand.view());
  scenario.call(kernels, views);
  return operands;
}

TEST(MatmulLayout, TheColumnMajorProductIsTheRowMajorOne) {
  for (const auto& [m, n, k] :
       {std::array{1, 1, 1}, {3, 17, 5}, {17, 3, 7}, {8, 8, 8}, {1, 9, 4}, {9, 1, 4}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const int added : {0, 1, 2}) {
          const bool extras = added > 0;
          const Scenario scenario = matmul_scenario({.m = m,
                                                     .n = n,
                                                     .k = k,
                                                     .transpose_a = transpose_a,
                                                     .transpose_b = transpose_b,
                                                     .accumulate = added == 1,
                                                     .bias = extras,
                                                     .addend = added == 2,
                                                     .padding = extras ? 3 : 0});
          ColumnMajorKernels column_major_kernels;
          ReferenceKernels reference;
          const std::vector<OperandMemory> actual = run(column_major_kernels, scenario);
          const std::vector<OperandMemory> expected = run(reference, scenario);
          for (std::size_t i = 0; i < actual.size(); ++i) {
            EXPECT_LE(relative_error(actual[i], expected[i]), 1e-6) << scenario.name << ", operand " << i;
            EXPECT_TRUE(actual[i].padding_is_untouched()) << scenario.name << ", operand " << i;
          }
        }
      }
    }
  }
}

TEST(MatmulLayout, KnowsAlignmentUpToThatOfEveryBuffer) {
  const auto at = [](std::uintptr_t address) {
    return known_alignment(reinterpret_cast<const void*>(address));
  };
  EXPECT_EQ(at(4096), kAlignment);
  EXPECT_EQ(at(4096 + 64), kAlignment);
  EXPECT_EQ(at(4096 + 48), 16);
  EXPECT_EQ(at(4096 + 2), 2);
  EXPECT_EQ(at(4096 + 6), 2);
}

TEST(MatmulLayout, TheSameProductInBuffersElsewhereIsTheSameProblem) {
  alignas(64) static std::array<std::byte, 4096> memory;
  const auto problem = [&](std::size_t a, std::size_t out, std::int64_t stride) {
    return column_major({.a = {memory.data() + a, DType::bf16, 4, 8, stride},
                         .b = {memory.data() + 1024, DType::bf16, 8, 4},
                         .out = {memory.data() + out, DType::fp32, 4, 4}});
  };
  EXPECT_EQ(problem(0, 2048, 8), problem(192, 2048 + 64, 8));
  EXPECT_NE(problem(0, 2048, 8), problem(2, 2048, 8));
  EXPECT_NE(problem(0, 2048, 8), problem(0, 2048, 16));
}

TEST(MatmulLayout, DescribesTheProductAsItWasAskedFor) {
  float memory = 0;
  const Product product{.a = {&memory, DType::bf16, 3, 5},
                        .b = {&memory, DType::bf16, 17, 5},
                        .transpose_b = true,
                        .out = {&memory, DType::fp32, 3, 17}};
  EXPECT_EQ(describe(column_major(product)),
            "a product of bf16 [3, 5] and [5, 17] (stored transposed) to fp32");
}

}  // namespace
}  // namespace strata
