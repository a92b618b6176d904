// Every device updates parameters and adds squares with the bits of optim's functions for the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/storage_type.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/state_calls.h"
#include "optim/average.h"
#include "optim/gradient_norm.h"
#include "optim/momentum.h"
#include "optim/update.h"
#include "tests/device/implementations.h"
#include "tests/device/scenario.h"
#include "tests/support/state_types.h"

namespace strata {
namespace {

using test::kBf16Moments;
using test::kEveryStateType;
using test::kSmallNone;
using test::kSplit;
using test::StateTypes;

/// What an update works on: `elements` from `first` on of longer vectors. Nothing else of them may change.
struct Stretch {
  StateTypes types;
  std::int64_t first, elements;
  OperandMemory master;      ///< remainders and parameters look like 16-bit numbers
  OperandMemory exp_avg;     ///< or a momentum buffer
  OperandMemory exp_avg_sq;  ///< or other squares
  OperandMemory exp_avg_slow;
  OperandMemory gradient, parameter;
  OperandMemory ema;  ///< if the format keeps it

  Stretch(std::int64_t first, std::int64_t elements, const StateTypes& types)
      : types(types),
        first(first),
        elements(elements),
        master(random_operand(1, types.format.master == MasterFormat::fp32 ? DType::fp32 : DType::bf16, 1,
                              length())),
        exp_avg(moment(2, Moment::exp_avg, 0.1F)),
        exp_avg_sq(moment(3, Moment::exp_avg_sq, 0.01F)),
        exp_avg_slow(moment(7, Moment::exp_avg_slow, 0.1F)),
        gradient(random_operand(4, types.precision, 1, length())),
        parameter(random_operand(5, types.precision, 1, length())),
        ema(random_operand(6, stored_dtype(types.format.average), 1, length())) {}

  std::int64_t length() const { return first + elements + 9; }

  static DType stored_dtype(MomentFormat format) {
    return format == MomentFormat::bf16 ? DType::bf16 : DType::fp32;
  }

  /// Blocks of codes look like fp32 numbers.
  OperandMemory moment(std::uint64_t seed, Moment moment, float deviation) const {
    const MomentFormat format = types.format.format_of(moment);
    const MomentCodes codes = codes_of(moment);
    const OperandMemory values = random_operand(seed, DType::fp32, 1, length(), 0, deviation);
    const std::vector<std::byte> stored =
        test::stored_moment(format, codes, static_cast<std::size_t>(length()), [&](std::size_t i) {
          const float value = values.at(0, static_cast<std::int64_t>(i));
          return codes == MomentCodes::squares ? std::abs(value) : value;
        });
    const DType dtype = stored_dtype(format);
    OperandMemory result = random_operand(seed, dtype, 1, std::ssize(stored) / size_of(dtype));
    std::ranges::copy(stored, result.bytes().begin());
    return result;
  }

  /// `place` says where the update finds an operand's memory.
  template <typename Place>
  OptimizerState state(const Place& place) {
    OptimizerState all = {.rule = types.rule,
                          .precision = types.precision,
                          .format = types.format,
                          .elements = length(),
                          .master = place(master.bytes()),
                          .gradient = place(gradient.bytes()),
                          .parameter = place(parameter.bytes()),
                          .unit = 3};
    moments_of(types.rule).for_each([&](Moment moment) {
      OperandMemory& memory = moment == Moment::exp_avg_slow ? exp_avg_slow
                              : test::holds_squares(moment)  ? exp_avg_sq
                                                             : exp_avg;
      all.of(moment) = place(memory.bytes());
    });
    if (types.format.kept.has(Moment::ema)) all.of(Moment::ema) = place(ema.bytes());
    return all.part(first, elements);
  }
};

void expect_same_bits(const Stretch& a, const Stretch& b) {
  EXPECT_EQ(a.master.memory(), b.master.memory());
  EXPECT_EQ(a.exp_avg.memory(), b.exp_avg.memory());
  EXPECT_EQ(a.exp_avg_sq.memory(), b.exp_avg_sq.memory());
  EXPECT_EQ(a.exp_avg_slow.memory(), b.exp_avg_slow.memory());
  EXPECT_EQ(a.gradient.memory(), b.gradient.memory());
  EXPECT_EQ(a.parameter.memory(), b.parameter.memory());
  EXPECT_EQ(a.ema.memory(), b.ema.memory());
}

UpdateCoefficients third_step(UpdateRule rule, float weight_decay) {
  return coefficients({.policy = {.rule = rule, .weight_decay = weight_decay, .settings = {.momentum = 0.8F}},
                       .learning_rate = 3e-3F,
                       .gradient_scale = 0.37F,
                       .step = 3,
                       .seed = 11});
}

/// A step's scalars: of two policies without and with weight decay.
struct Scalars {
  std::uint32_t skip = 0;
  AverageCoefficients average = average_coefficients({.decay = 0.7}, 3, 11);
  std::array<UpdateCoefficients, 2> of_policy;

  explicit Scalars(UpdateRule rule, bool skips = false)
      : skip(skips ? 1 : 0), of_policy{third_step(rule, 0), third_step(rule, 0.1F)} {}
};
static_assert(sizeof(Scalars) == StepScalars::bytes(2));

class OptimizerKernels : public EveryImplementation {
 protected:
  /// After call(kernels, state, its scalars), which gives the same bits in each run.
  template <typename Call>
  Stretch changed(const Stretch& before, bool skips, const Call& call) {
    Scalars scalars(before.types.rule, skips);
    std::optional<Stretch> result;
    for (int run = 0; run < implementation().runs(); ++run) {
      implementation().begin_run(run);
      Stretch stretch = before;
      const OptimizerState state =
          stretch.state([&](std::span<std::byte> host) { return implementation().place(host); });
      call(implementation().kernels(), state, StepScalars(place_as<std::byte>(scalars)));
      implementation().bring_back();
      if (result) expect_same_bits(stretch, *result);
      result = std::move(stretch);
    }
    return *result;
  }

  Stretch updated(const Stretch& before, std::size_t policy, bool skips = false) {
    return changed(before, skips,
                   [policy](Kernels& kernels, const OptimizerState& state, const StepScalars& scalars) {
                     kernels.run(ParameterUpdate{.skip = scalars.skip(),
                                                 .step = scalars.of_policy(policy),
                                                 .average = scalars.average(),
                                                 .state = state});
                   });
  }

  void expect_reference_bits(const Stretch& stretch, std::size_t policy) {
    Stretch expected = stretch;
    const Scalars scalars(stretch.types.rule);
    update_reference(scalars.of_policy[policy],
                     expected.state([](std::span<std::byte> host) { return host.data(); }), scalars.average);
    expect_same_bits(updated(stretch, policy), expected);
  }

  /// After momentum of Muon, whose direction takes the gradient's place. REQUIRES: its rule is Muon.
  Stretch mixed(const Stretch& before, bool skips) {
    return changed(before, skips,
                   [](Kernels& kernels, const OptimizerState& state, const StepScalars& scalars) {
                     kernels.run(MomentumMix{.skip = scalars.skip(),
                                             .step = scalars.of_policy(0),
                                             .state = state,
                                             .direction = direction_in(state)});
                   });
  }

  static Matrix direction_in(const OptimizerState& state) {
    return {const_cast<void*>(state.gradient), state.precision, 1, state.elements};
  }

  /// x over the root of `squares`, or over 0.5.
  OperandMemory divided(OperandMemory x, double squares) {
    Matrix matrix = x.view();
    matrix.data = implementation().place(x.bytes());
    implementation().kernels().run(DivideByNorm{matrix, place_as<double>(squares), 0.5F, matrix});
    implementation().bring_back();
    return x;
  }

  /// Adds up the squares of `elements` elements from `first` on.
  double sum_of_squares_of(OperandMemory x, std::int64_t first, std::int64_t elements) {
    std::optional<double> result;
    for (int run = 0; run < implementation().runs(); ++run) {
      implementation().begin_run(run);
      double sum = -1;
      Matrix whole = x.view();
      whole.data = implementation().place(x.bytes());
      implementation().kernels().run(
          SumOfSquares{whole.column_slice(first, elements), place_as<double>(sum)});
      implementation().bring_back();
      EXPECT_EQ(std::bit_cast<std::uint64_t>(sum), std::bit_cast<std::uint64_t>(result.value_or(sum)));
      result = sum;
    }
    return *result;
  }

 private:
  template <typename T, typename Host>
  T* place_as(Host& host) {
    return reinterpret_cast<T*>(implementation().place(std::as_writable_bytes(std::span(&host, 1))));
  }
};

// Invariant (OptimizerKernels.*): The state's format is exact or reproducible.
TEST_P(OptimizerKernels, UpdatesGiveTheReferenceBitsAtEverySizeAndAlignmentAndTouchNothingElse) {
  for (const StateTypes& types : kEveryStateType) {
    for (const std::int64_t elements : {0, 1, 3, 4, 31, 1023, 1025, 5000}) {
      for (const std::int64_t first : {0, 1, 4}) {
        SCOPED_TRACE(::testing::Message() << name_of(types.rule) << ", " << describe(types) << ", "
                                          << elements << " from " << first);
        expect_reference_bits(Stretch(first, elements, types), elements % 2 == 0 ? 1 : 0);
      }
    }
  }
}

TEST_P(OptimizerKernels, AveragesHaveTheReferenceBitsInEveryFormat) {
  for (const StateTypes& each : test::kEveryFormat) {
    for (const MomentFormat average : {MomentFormat::fp32, MomentFormat::bf16}) {
      StateTypes types = each;
      types.format.average = average;
      types.format.kept = moments_of(types.rule) | Moments{Moment::ema};
      for (const std::int64_t elements : {1, 31, 1025, 5000}) {
        SCOPED_TRACE(::testing::Message()
                     << describe(types) << ", average " << name_of(average) << ", " << elements);
        const Stretch before(3, elements, types);
        expect_reference_bits(before, 1);
        EXPECT_NE(updated(before, 1).ema.memory(), before.ema.memory());
        EXPECT_EQ(updated(before, 1, true).ema.memory(), before.ema.memory()) << "a skipped step";
      }
    }
  }
}

TEST_P(OptimizerKernels, AdamWKeepsMomentsThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const StateFormat& format : {kBf16Moments, kSmallNone}) {
    Stretch stretch(0, 64, {DType::bf16, format});
    for (std::int64_t i = 0; i < stretch.elements; ++i) {
      stretch.exp_avg.set(0, i, i % 2 == 0 ? -kInfinity : std::numeric_limits<float>::quiet_NaN());
      stretch.exp_avg_sq.set(0, i, i % 2 == 0 ? kInfinity : std::numeric_limits<float>::quiet_NaN());
    }
    const Stretch after = updated(stretch, 1);
    for (std::int64_t i = 0; i < stretch.elements; ++i) {
      const float m = after.exp_avg.at(0, i), v = after.exp_avg_sq.at(0, i);
      EXPECT_TRUE(i % 2 == 0 ? m == -kInfinity && v == kInfinity : std::isnan(m) && std::isnan(v))
          << m << ", " << v;
    }
  }
}

TEST_P(OptimizerKernels, AdamWOfASplitMasterThatBecomesNaNShowsItInTheParameter) {
  Stretch stretch(0, 64, {DType::bf16, kSplit});
  for (std::int64_t i = 0; i < stretch.elements; ++i)
    stretch.exp_avg.set(0, i, std::numeric_limits<float>::quiet_NaN());
  const Stretch after = updated(stretch, 1);
  for (std::int64_t i = 0; i < stretch.elements; ++i) EXPECT_TRUE(std::isnan(after.parameter.at(0, i))) << i;
}

TEST_P(OptimizerKernels, AdamWCopiesTheMasterRoundedToNearestEven) {
  // Without gradient and decay the master stays: ties, overflow, subnormals and infinities reach the copy
  // untouched.
  const std::vector<std::uint32_t> words = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff,
                                            0x7f7fffff, 0x7f800000, 0xff800000, 0x00000001, 0x80000000,
                                            0x00008000, 0x00018000, 0xbf808000, 0x477ff000, 0x477fefff,
                                            0x33000000, 0x33000001, 0x38801000};
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Stretch stretch(0, static_cast<std::int64_t>(words.size()), {.precision = dtype});
    for (std::int64_t i = 0; i < stretch.elements; ++i) {
      stretch.master.set(0, i, std::bit_cast<float>(words[static_cast<std::size_t>(i)]));
      for (OperandMemory* zero : {&stretch.exp_avg, &stretch.exp_avg_sq, &stretch.gradient})
        zero->set(0, i, 0);
    }
    const Stretch after = updated(stretch, 0);
    EXPECT_EQ(after.master.memory(), stretch.master.memory());
    for (std::int64_t i = 0; i < stretch.elements; ++i) {
      stretch.parameter.set(0, i, stretch.master.at(0, i));
    }
    EXPECT_EQ(after.parameter.memory(), stretch.parameter.memory()) << name_of(dtype);
  }
}

TEST_P(OptimizerKernels, UpdatesOfASkippedStepKeepTheStateAndRoundItToTheParameter) {
  for (const StateTypes& types : kEveryStateType) {
    const Stretch before(1, 4999, types);
    Stretch expected = before;
    const bool is_copy = types.format.is_rounded_copy(types.precision);
    for (std::int64_t i = before.first; is_copy && i < before.first + before.elements; ++i)
      expected.parameter.set(0, i, before.master.at(0, i));
    expect_same_bits(updated(before, 1, true), expected);
  }
}

TEST_P(OptimizerKernels, MomentumHasTheReferenceBitsAndASkippedStepKeepsItsOwn) {
  for (StateTypes types : test::kEveryFormat) {
    types.rule = UpdateRule::muon;
    for (const std::int64_t elements : {0, 1, 31, 1025, 5000}) {
      SCOPED_TRACE(::testing::Message() << name_of(types.precision) << ", momentum "
                                        << name_of(types.format.moments) << ", " << elements);
      const Stretch before(3, elements, types);
      Stretch expected = before;
      const Scalars scalars(UpdateRule::muon);
      const OptimizerState state = expected.state([](std::span<std::byte> host) { return host.data(); });
      mix_momentum_reference(scalars.of_policy[0], state, direction_in(state).data);
      expect_same_bits(mixed(before, false), expected);
      expect_same_bits(mixed(before, true), before);
    }
  }
}

TEST_P(OptimizerKernels, ANormIsRoundedBeforeItDividesAndIsNeverTooSmall) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const OperandMemory x = random_operand(5, dtype, 3, 1031);
    for (const double squares : {7.3, 1e-9}) {
      const OperandMemory actual = divided(x, squares);
      const float norm = with_storage_type(
          dtype, [&]<typename T>(T) { return float(T(static_cast<float>(std::sqrt(squares)))); });
      OperandMemory expected = x;
      for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t i = 0; i < 1031; ++i) expected.set(row, i, x.at(row, i) / std::max(norm, 0.5F));
      }
      EXPECT_EQ(actual.memory(), expected.memory()) << name_of(dtype) << ", " << squares;
    }
  }
}

TEST_P(OptimizerKernels, SumOfSquaresHasTheBitsOfTheCpuAtEverySizeAndAlignment) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    const OperandMemory x = random_operand(5, dtype, 1, 851'980);
    for (const std::int64_t elements : {0, 1, 31, 32, 33, 4095, 4097, 65'536, 65'537, 200'001, 851'973}) {
      for (const std::int64_t first : {0, 1}) {
        const double expected = sum_of_squares(x.memory().data() + first * size_of(dtype), dtype, elements);
        EXPECT_EQ(sum_of_squares_of(x, first, elements), expected)
            << name_of(dtype) << ", " << elements << " from " << first;
      }
    }
  }
}

TEST_P(OptimizerKernels, SumOfSquaresShowsOneInfinityOrNaNAnywhere) {
  for (const std::int64_t place : {0, 17, 70'000, 99'999}) {
    OperandMemory x = random_operand(6, DType::fp32, 1, 100'000);
    x.set(0, place, -std::numeric_limits<float>::infinity());
    EXPECT_EQ(sum_of_squares_of(x, 0, 100'000), std::numeric_limits<double>::infinity());
    x.set(0, place, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(std::isnan(sum_of_squares_of(x, 0, 100'000)));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OptimizerKernels, ::testing::ValuesIn(implementation_choices()),
                         name_of_choice);

}  // namespace
}  // namespace strata
