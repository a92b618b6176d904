// Products of every device against the plain reference, at sizes around the vectors', panels' and blocks'
// edges.
#include <array>

#include "base/precision.h"
#include "engine/device/activation.h"
#include "tests/device/implementations.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

using Matmul = EveryImplementation;
INSTANTIATE_TEST_SUITE_P(, Matmul, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

TEST_P(Matmul, AgreesForEverySizeAndLayout) {
  for (const auto& [m, n, k] : {std::array{1, 1, 1},
                                {3, 17, 65},
                                {65, 3, 17},
                                {17, 130, 3},
                                {64, 64, 64},
                                {7, 129, 33},
                                {200, 70, 260},
                                {130, 65, 2}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const DType dtype : kDTypes) {
          for (const DType out : {DType::fp32, dtype}) {
            expect_agrees(matmul_scenario({.m = m,
                                           .n = n,
                                           .k = k,
                                           .transpose_a = transpose_a,
                                           .transpose_b = transpose_b,
                                           .dtype = dtype,
                                           .out = out}));
          }
        }
      }
    }
  }
}

TEST_P(Matmul, ReadsAndWritesOnlyItsViews) {
  for (const std::int64_t padding : {1, 2, 64}) {
    for (const DType dtype : kDTypes) {
      for (const bool transposed : {false, true}) {
        expect_agrees(matmul_scenario({.m = 37,
                                       .n = 70,
                                       .k = 51,
                                       .transpose_a = transposed,
                                       .transpose_b = transposed,
                                       .padding = padding,
                                       .dtype = dtype,
                                       .out = dtype}));
      }
    }
  }
}

TEST_P(Matmul, AddsBiasAndAccumulates) {
  for (const DType dtype : kDTypes) {
    for (const DType out : {DType::fp32, dtype}) {
      for (const bool accumulate : {false, true}) {
        for (const bool bias : {false, true}) {
          for (const std::int64_t n : {5, 64, 100}) {
            expect_agrees(matmul_scenario({.m = 33,
                                           .n = n,
                                           .k = 40,
                                           .accumulate = accumulate,
                                           .bias = bias,
                                           .dtype = dtype,
                                           .out = out}));
          }
        }
      }
    }
  }
}

TEST_P(Matmul, AddsWhatLiesElsewhere) {
  for (const DType dtype : kDTypes) {
    for (const DType out : {DType::fp32, dtype}) {
      for (const bool bias : {false, true}) {
        for (const std::int64_t padding : {0, 3, 8}) {
          for (const auto& [m, n, k] : {std::array{33, 5, 40}, {1, 64, 8}, {600, 100, 9}}) {
            expect_agrees(matmul_scenario({.m = m,
                                           .n = n,
                                           .k = k,
                                           .bias = bias,
                                           .addend = true,
                                           .padding = padding,
                                           .dtype = dtype,
                                           .out = out}));
          }
        }
      }
    }
  }
}

TEST_P(Matmul, AppliesAnActivationToTheSum) {
  for (const DType dtype : kDTypes) {
    for (const Activation activation : {Activation::gelu_tanh, Activation::silu, Activation::relu2}) {
      for (const bool bias : {false, true}) {
        for (const std::int64_t padding : {0, 3, 8}) {
          for (const auto& [m, n, k] : {std::array{33, 5, 40}, {1, 64, 8}, {600, 104, 9}}) {
            expect_agrees(matmul_scenario({.m = m,
                                           .n = n,
                                           .k = k,
                                           .bias = bias,
                                           .padding = padding,
                                           .dtype = dtype,
                                           .out = dtype,
                                           .activation = activation}));
          }
        }
      }
    }
  }
}

TEST_P(Matmul, AppliesAnActivationWhereItRoundsItsOperands) {
  expect_agrees(matmul_scenario({.m = 48,
                                 .n = 32,
                                 .k = 64,
                                 .bias = true,
                                 .dtype = DType::bf16,
                                 .out = DType::bf16,
                                 .rounding = Rounding::e4m3,
                                 .activation = Activation::gelu_tanh}));
}

TEST_P(Matmul, CutsALongDepthWithoutLosingAnything) {
  for (const DType dtype : kDTypes) {
    for (const bool accumulate : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const std::int64_t n : {5, 64}) {
          Scenario scenario = matmul_scenario({.m = 7,
                                               .n = n,
                                               .k = 9001,
                                               .transpose_a = bias,
                                               .accumulate = accumulate,
                                               .bias = bias,
                                               .dtype = dtype,
                                               .out = dtype});
          expect_agrees(scenario);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
