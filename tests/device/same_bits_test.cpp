// What a plan may place in two ways has the same bits in both: sums that stand in an output or elsewhere, and
// sums that a norm makes or finds.
#include <gtest/gtest.h>

#include <array>

#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "tests/device/implementations.h"
#include "tests/device/scenario.h"

namespace strata {
namespace {

using Views = std::vector<Matrix>;

class SameBits : public EveryImplementation {
 protected:
  /// The scenario's operand of that number after its call.
  std::vector<float> values_after(const Scenario& scenario, std::size_t operand) {
    implementation().begin_run(0);
    return run_scenario(scenario, implementation())[operand].values();
  }
};
INSTANTIATE_TEST_SUITE_P(, SameBits, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

TEST_P(SameBits, OfProductsThatAddToTheirOutputOrToWhatLiesElsewhere) {
  for (const Rounding rounding : {Rounding::none, Rounding::e4m3}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      if (rounding == Rounding::e4m3 && dtype != DType::bf16) continue;
      for (const bool transpose_b : {false, true}) {
        for (const auto& [m, n, k] :
             {std::array{48, 32, 48}, {48, 32, 32}, {200, 72, 264}, {256, 512, 128}, {64, 64, 8192}}) {
          const OperandMemory a = random_operand(1, dtype, m, k);
          const OperandMemory b =
              transpose_b ? random_operand(2, dtype, n, k) : random_operand(2, dtype, k, n);
          const OperandMemory addend = random_operand(3, dtype, m, n);
          const Scenario in_place{"", {a, b, addend}, [&](Kernels& kernels, const Views& x) {
                                    kernels.run(Product{.a = x[0],
                                                        .b = x[1],
                                                        .transpose_b = transpose_b,
                                                        .out = x[2],
                                                        .accumulate = true,
                                                        .rounding = rounding});
                                  }};
          const Scenario elsewhere{
              "", {a, b, addend, poisoned_operand(dtype, m, n)}, [&](Kernels& kernels, const Views& x) {
                kernels.run(Product{.a = x[0],
                                    .b = x[1],
                                    .transpose_b = transpose_b,
                                    .out = x[3],
                                    .addend = x[2],
                                    .rounding = rounding});
              }};
          EXPECT_EQ(values_after(in_place, 2), values_after(elsewhere, 3))
              << m << "x" << n << "x" << k << " " << name_of(dtype) << (transpose_b ? " b^T" : "")
              << (rounding == Rounding::e4m3 ? " e4m3" : "");
        }
      }
    }
  }
}

TEST_P(SameBits, OfNormsThatMakeASumOrFindIt) {
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const std::int64_t columns : {32, 40, 768, 4096, 40000}) {
        constexpr std::int64_t kRows = 48;
        const bool layer = kind == NormKind::layer_norm;
        const OperandMemory rows = poisoned_operand(dtype, kRows, columns),
                            statistics = poisoned_operand(DType::fp32, 1, kRows);
        Scenario makes{"",
                       {random_operand(1, dtype, kRows, columns), random_operand(2, dtype, kRows, columns),
                        rows, random_operand(3, dtype, 1, columns), rows, statistics, statistics},
                       [&](Kernels& kernels, const Views& x) {
                         kernels.run(NormForward{.kind = kind,
                                                 .epsilon = 1e-5F,
                                                 .input = x[0],
                                                 .addend = x[1],
                                                 .sum = x[2],
                                                 .weight = x[3],
                                                 .out = x[4],
                                                 .mean = layer ? x[5] : Matrix(),
                                                 .reciprocal_deviation = x[6]});
                       }};
        implementation().begin_run(0);
        const std::vector<OperandMemory> made = run_scenario(makes, implementation());
        const Scenario finds{
            "", {made[2], made[3], rows, statistics, statistics}, [&](Kernels& kernels, const Views& x) {
              kernels.run(NormForward{.kind = kind,
                                      .epsilon = 1e-5F,
                                      .input = x[0],
                                      .weight = x[1],
                                      .out = x[2],
                                      .mean = layer ? x[3] : Matrix(),
                                      .reciprocal_deviation = x[4]});
            }};
        implementation().begin_run(0);
        const std::vector<OperandMemory> found = run_scenario(finds, implementation());
        EXPECT_EQ(made[4].memory(), found[2].memory()) << name_of(dtype) << " " << columns;
        EXPECT_EQ(made[6].memory(), found[4].memory()) << name_of(dtype) << " " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace strata
