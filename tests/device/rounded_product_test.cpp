// Products that round what they multiply to e4m3: every device rounds as base/float8.h, to the bit, whatever
// the layout, and multiplies what it has rounded.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/float8.h"
#include "engine/device/product_calls.h"
#include "tests/device/implementations.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

OperandMemory zeros(std::int64_t side) {
  OperandMemory result(DType::bf16, side, side);
  std::ranges::fill(result.bytes(), std::byte{0});
  return result;
}

class RoundedProduct : public EveryImplementation {
 protected:
  /// Tensor cores add products of e4m3 with about 14 bits between promotions to fp32. The largest error seen
  /// on an H200 is 1.05e-4.
  void expect_product_agrees(const ProductCase& product) {
    Scenario scenario = matmul_scenario(product);
    if (GetParam().name == "cuda") scenario.fp32_tolerance = 0x1p-12;
    expect_agrees(scenario);
  }

  /// What a product with the unit matrix, whose numbers e4m3 has, makes of `values`: [n, n], in fp32.
  OperandMemory rounded(const OperandMemory& values) {
    const std::int64_t n = values.rows();
    OperandMemory unit = zeros(n);
    for (std::int64_t i = 0; i < n; ++i) unit.set(i, i, 1);
    const Scenario scenario{
        "",
        {values, unit, OperandMemory(DType::fp32, n, n)},
        [&](Kernels& kernels, const std::vector<Matrix>& x) {
          kernels.run(Product{.a = x[0], .b = x[1], .out = x[2], .rounding = Rounding::e4m3});
        }};
    return run_scenario(scenario, implementation())[2];
  }
};
INSTANTIATE_TEST_SUITE_P(, RoundedProduct, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

/// Every bf16 up to a limit, which is the largest, so that each limit is another scale.
// Invariant (RoundedProduct.*): FP8 rounds alike everywhere.
TEST_P(RoundedProduct, RoundsEveryBf16ToTheBit) {
  constexpr std::int64_t kSide = 256;
  for (const float limit : {448.0F, 1.0F, 0x1.c2p-3F, 6e-5F, 1e-38F, 3.3e38F}) {
    OperandMemory values = zeros(kSide);
    float largest = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      bfloat16 pattern;
      pattern.bits = static_cast<std::uint16_t>(bits);
      const auto value = static_cast<float>(pattern);
      if (!(std::abs(value) <= limit)) continue;
      values.set(bits / kSide, bits % kSide, value);
      largest = std::max(largest, std::abs(value));
    }
    const Float8Scale scale = Float8Scale::of(largest);
    const OperandMemory result = rounded(values);
    std::int64_t wrong = 0, not_zero = 0;
    for (std::int64_t row = 0; row < kSide; ++row) {
      for (std::int64_t column = 0; column < kSide; ++column) {
        const float expected = scale.rounded(values.at(row, column));
        wrong += result.at(row, column) == expected ? 0 : 1;
        not_zero += expected == 0 ? 0 : 1;
      }
    }
    EXPECT_EQ(wrong, 0) << limit;
    EXPECT_GT(not_zero, 50) << limit;
  }
}

TEST_P(RoundedProduct, KeepsWhatIsNotFiniteAndScalesByWhatIs) {
  constexpr std::int64_t kSide = 32;
  for (const float value : {kInfinity, -kInfinity, kNaN}) {
    OperandMemory values = random_operand(1, DType::bf16, kSide, kSide);
    values.set(3, 5, 0);
    const OperandMemory finite = rounded(values);
    values.set(3, 5, value);
    const OperandMemory result = rounded(values);
    for (std::int64_t row = 0; row < kSide; ++row) {
      for (std::int64_t column = 0; column < kSide; ++column) {
        if (row == 3) {
          EXPECT_TRUE(std::isnan(result.at(row, column)));  // NaN times the unit matrix' zeros, too
        } else {
          EXPECT_EQ(result.at(row, column), finite.at(row, column));
        }
      }
    }
  }
}

/// Sizes that are multiples of 16, as FP8 needs them on a GPU, and others; tiles of 64 with rests.
TEST_P(RoundedProduct, AgreesForSizesAndLayouts) {
  for (const auto& [m, n, k] : {std::array{80, 48, 144}, {144, 64, 80}, {3, 17, 65}, {130, 65, 2}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const DType out : {DType::fp32, DType::bf16}) {
          for (const std::int64_t padding : {8, 3}) {
            expect_product_agrees({.m = m,
                                   .n = n,
                                   .k = k,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .padding = padding,
                                   .dtype = DType::bf16,
                                   .out = out,
                                   .rounding = Rounding::e4m3});
          }
        }
      }
    }
  }
}

TEST_P(RoundedProduct, AddsBiasAndWhatIsInTheOutputOrElsewhere) {
  for (const DType out : {DType::fp32, DType::bf16}) {
    for (const auto& [accumulate, addend] : {std::pair{false, false}, {true, false}, {false, true}}) {
      for (const bool bias : {false, true}) {
        for (const std::int64_t n : {5, 64}) {
          expect_product_agrees({.m = 32,
                                 .n = n,
                                 .k = 48,
                                 .accumulate = accumulate,
                                 .bias = bias,
                                 .addend = addend,
                                 .dtype = DType::bf16,
                                 .out = out,
                                 .rounding = Rounding::e4m3});
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
