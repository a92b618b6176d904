// Values on which no implementation may cut corners: NaN, infinities, and the ends of the number formats.
#include <bit>
#include <cmath>
#include <limits>

#include "engine/device/activation_calls.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/norm_calls.h"
#include "tests/device/implementations.h"

namespace strata {
namespace {

OperandMemory row_of(DType dtype, const std::vector<float>& values) {
  OperandMemory result(dtype, 1, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) result.set(0, static_cast<std::int64_t>(i), values[i]);
  return result;
}

/// 1 everywhere, NaN at `place`.
OperandMemory with_nan(std::int64_t columns, std::int64_t place) {
  OperandMemory result = row_of(DType::fp32, std::vector<float>(static_cast<std::size_t>(columns), 1.0F));
  result.set(0, place, kNaN);
  return result;
}

class SpecialValues : public EveryImplementation {
 protected:
  /// Makes a call that reads operand 0 and writes operand 1.
  template <typename Call>
  OperandMemory result_of(const OperandMemory& input, const OperandMemory& output, const Call& call) {
    const Scenario scenario{"", {input, output}, [&](Kernels& kernels, const std::vector<Matrix>& x) {
                              call(kernels, x[0], x[1]);
                            }};
    return run_scenario(scenario, implementation())[1];
  }
  OperandMemory cast(const OperandMemory& input, DType to) {
    return result_of(input, OperandMemory(to, 1, input.columns()),
                     [](Kernels& kernels, const Matrix& x, const Matrix& out) {
                       kernels.run(Cast{x, out});
                     });
  }
};
INSTANTIATE_TEST_SUITE_P(, SpecialValues, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

TEST_P(SpecialValues, CastRoundsToNearestEvenAtTheEndsOfTheFormats) {
  const std::vector<float> values = {0.0F,      -0.0F,     kInfinity,     -kInfinity,   3.4e38F,
                                     -3.4e38F,  65504.0F,  65519.996F,    65520.0F,     1e-40F,
                                     0x1p-24F,  0x1p-25F,  0x1.8p-25F,    0x1.002p-14F, 0x1.ffep-15F,
                                     0x1.01p0F, 0x1.03p0F, 0x1.010002p0F, 0x1.002p0F,   0x1.006p0F};
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    EXPECT_EQ(cast(row_of(DType::fp32, values), dtype).memory(), row_of(dtype, values).memory())
        << name_of(dtype);
  }
}

TEST_P(SpecialValues, CastReadsEveryFp16AndBf16) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    OperandMemory patterns(dtype, 1, 1 << 16);
    for (std::size_t i = 0; i < 1 << 16; ++i) {
      patterns.bytes()[2 * i] = static_cast<std::byte>(i & 0xff);
      patterns.bytes()[2 * i + 1] = static_cast<std::byte>(i >> 8);
    }
    const OperandMemory values = cast(patterns, DType::fp32);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 1 << 16; ++i) {
      const float expected = patterns.at(0, i), value = values.at(0, i);
      const bool same = std::isnan(expected)
                            ? std::isnan(value)
                            : std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(expected);
      wrong += same ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0) << name_of(dtype);
  }
}

TEST_P(SpecialValues, NaNStaysNaNInEveryDType) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    // The second one's payload is lost when its low bits are cut off.
    const OperandMemory values = row_of(DType::fp32, {kNaN, std::bit_cast<float>(0x7f800001U), -kNaN});
    const OperandMemory result = cast(values, dtype);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(std::isnan(result.at(0, i))) << name_of(dtype) << " " << i;
  }
}

TEST_P(SpecialValues, NaNPassesThroughActivations) {
  const OperandMemory x = with_nan(40, 37), untouched(DType::fp32, 1, 40);
  const OperandMemory gelu =
      result_of(x, untouched, [](Kernels& kernels, const Matrix& x, const Matrix& out) {
        kernels.run(ActivationForward{Activation::gelu_tanh, x, out});
      });
  EXPECT_TRUE(std::isnan(gelu.at(0, 37)) && !std::isnan(gelu.at(0, 36)));
  const OperandMemory slope =
      result_of(x, untouched, [](Kernels& kernels, const Matrix& x, const Matrix& out) {
        kernels.run(ActivationBackward{Activation::gelu_tanh, x, x, out});
      });
  EXPECT_TRUE(std::isnan(slope.at(0, 37)) && !std::isnan(slope.at(0, 36)));
  const OperandMemory swiglu =
      result_of(with_nan(80, 3), untouched, [](Kernels& kernels, const Matrix& x, const Matrix& out) {
        kernels.run(GatedForward{Activation::silu, x, out});
      });
  EXPECT_TRUE(std::isnan(swiglu.at(0, 3)) && !std::isnan(swiglu.at(0, 4)));
}

TEST_P(SpecialValues, NaNReachesTheWholeRowOfANorm) {
  const Scenario scenario{
      "",
      {with_nan(40, 37), OperandMemory(DType::fp32, 1, 40), OperandMemory(DType::fp32, 1, 1)},
      [](Kernels& kernels, const std::vector<Matrix>& x) {
        kernels.run(NormForward{.kind = NormKind::rms_norm,
                                .epsilon = 1e-5F,
                                .input = x[0],
                                .weight = x[0],
                                .out = x[1],
                                .reciprocal_deviation = x[2]});
      }};
  const OperandMemory out = run_scenario(scenario, implementation())[1];
  for (std::int64_t i = 0; i < 40; ++i) EXPECT_TRUE(std::isnan(out.at(0, i)));
}

TEST_P(SpecialValues, GeluOfLargeArgumentsIsTheArgumentOrZero) {
  const OperandMemory x = row_of(DType::fp32, {100.0F, -100.0F, 1e4F, -1e4F, 0.0F});
  const OperandMemory gelu = result_of(x, OperandMemory(DType::fp32, 1, 5),
                                       [](Kernels& kernels, const Matrix& x, const Matrix& out) {
                                         kernels.run(ActivationForward{Activation::gelu_tanh, x, out});
                                       });
  EXPECT_EQ(gelu.at(0, 0), 100.0F);
  EXPECT_EQ(gelu.at(0, 2), 1e4F);
  EXPECT_NEAR(gelu.at(0, 1), 0, 1e-20);
  EXPECT_NEAR(gelu.at(0, 3), 0, 1e-20);
  EXPECT_EQ(gelu.at(0, 4), 0.0F);
}

TEST_P(SpecialValues, GeluOfLargeArgumentsHasSlopeOneOrZero) {
  const OperandMemory x = row_of(DType::fp32, {100.0F, -100.0F, 1e4F, -1e4F});
  const OperandMemory slope = result_of(x, row_of(DType::fp32, {1, 1, 1, 1}),
                                        [](Kernels& kernels, const Matrix& x, const Matrix& out) {
                                          kernels.run(ActivationBackward{Activation::gelu_tanh, x, out, out});
                                        });
  EXPECT_EQ(slope.at(0, 0), 1.0F);
  EXPECT_EQ(slope.at(0, 2), 1.0F);
  EXPECT_NEAR(slope.at(0, 1), 0, 1e-20);
  EXPECT_NEAR(slope.at(0, 3), 0, 1e-20);
}

}  // namespace
}  // namespace strata
