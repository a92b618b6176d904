// Codes of FP8 and the numbers that they stand for: every device has those of base/float8.h, to the bit.
#include <cmath>
#include <limits>

#include "base/float8.h"
#include "engine/device/state_calls.h"
#include "tests/device/implementations.h"

namespace strata {
namespace {

/// Every bf16 whose magnitude is at most `limit`, and all that are not finite; others are zeros.
OperandMemory numbers_up_to(float limit) {
  OperandMemory values(DType::bf16, 1, 0x10000);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 pattern;
    pattern.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(pattern);
    values.set(0, bits, std::isfinite(value) && std::abs(value) > limit ? 0.0F : value);
  }
  return values;
}

bool is_nan(std::uint32_t code) {
  return (code & 0x7fU) == 0x7fU;
}

class Float8Codes : public EveryImplementation {
 protected:
  /// Operands: numbers, codes, their scale, and what is made of codes.
  std::vector<OperandMemory> run(const OperandMemory& numbers) {
    const std::int64_t count = numbers.columns();
    const Scenario scenario{"",
                            {numbers, OperandMemory(DType::bf16, 1, count / 2),
                             OperandMemory(DType::fp32, 1, 2), OperandMemory(DType::bf16, 1, count)},
                            [count](Kernels& kernels, const std::vector<Matrix>& x) {
                              const std::span codes(x[1].row<std::uint8_t>(0),
                                                    static_cast<std::size_t>(count));
                              auto* scale = x[2].row<Float8Factors>(0);
                              kernels.run(EncodeFloat8{.x = x[0], .codes = codes, .scale = scale});
                              kernels.run(DecodeFloat8{.codes = codes, .scale = scale, .out = x[3]});
                            }};
    return run_scenario(scenario, implementation());
  }
};
INSTANTIATE_TEST_SUITE_P(, Float8Codes, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

// Invariant (Float8Codes.*): Packed parameters change no result.
TEST_P(Float8Codes, AreThoseOfEveryBf16ToTheBit) {
  for (const float limit : {448.0F, 1.0F, 0x1.c2p-3F, 6e-5F, 1e-38F, std::numeric_limits<float>::max()}) {
    const OperandMemory numbers = numbers_up_to(limit);
    float largest = 0;
    for (std::int64_t i = 0; i < numbers.columns(); ++i)
      if (std::isfinite(numbers.at(0, i)))
        largest = std::max(largest, std::abs(static_cast<float>(numbers.at(0, i))));
    const Float8Scale scale = Float8Scale::of(largest);
    const std::vector<OperandMemory> result = run(numbers);
    EXPECT_EQ(result[2].at(0, 0), scale.factor());
    EXPECT_EQ(result[2].at(0, 1), scale.inverse());
    const auto* codes = reinterpret_cast<const std::uint8_t*>(result[1].memory().data());
    const auto* decoded = reinterpret_cast<const bfloat16*>(result[3].memory().data());
    std::int64_t wrong_codes = 0, wrong_numbers = 0;
    for (std::int64_t i = 0; i < numbers.columns(); ++i) {
      const float8_e4m3 code(static_cast<float>(numbers.at(0, i)) * scale.factor());
      wrong_codes += is_nan(code.bits) ? !is_nan(codes[i]) : codes[i] != code.bits;
      const float rounded = scale.rounded(static_cast<float>(numbers.at(0, i)));
      wrong_numbers +=
          std::isnan(rounded) ? decoded[i].bits != 0x7fc0U : static_cast<float>(decoded[i]) != rounded;
    }
    EXPECT_EQ(wrong_codes, 0) << limit;
    EXPECT_EQ(wrong_numbers, 0) << limit;
  }
}

/// So a product that rounds what was packed has the operands of one that rounds what was not.
TEST_P(Float8Codes, StandForNumbersThatAreRoundedToThemselves) {
  for (const float limit : {448.0F, 0x1.c2p-3F, 0x1.e1p-3F, 1e-38F, 3.3e38F}) {
    const OperandMemory once = run(numbers_up_to(limit))[3];
    const OperandMemory twice = run(once)[3];
    EXPECT_EQ(once.memory(), twice.memory()) << limit;
  }
}

/// Runs of every length, in whose ends vectors do not fit.
TEST_P(Float8Codes, HaveNoBordersOfThreadsOrVectors) {
  for (const std::int64_t count : {16, 48, 496, 16400, 100000}) {
    OperandMemory numbers(DType::bf16, 1, count);
    for (std::int64_t i = 0; i < count; ++i) numbers.set(0, i, static_cast<double>((i * 37) % 501) - 250.0);
    numbers.set(0, count - 1, 3e4);
    const OperandMemory decoded = run(numbers)[3];
    const Float8Scale scale = Float8Scale::of(static_cast<float>(numbers.at(0, count - 1)));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i)
      wrong += decoded.at(0, i) != scale.rounded(static_cast<float>(numbers.at(0, i)));
    EXPECT_EQ(wrong, 0) << count;
  }
}

}  // namespace
}  // namespace strata
