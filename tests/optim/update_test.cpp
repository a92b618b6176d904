#include "optim/update.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/task_arena.h"
#include "tests/support/highway_target.h"
#include "tests/support/state_types.h"

namespace strata {
namespace {

using test::kBf16Moments;
using test::kCodedMoments;
using test::kCodedSplit;
using test::kEveryStateType;
using test::kNoMaster;
using test::kSmallest;
using test::kSmallNone;
using test::kSmallSplit;
using test::kSplit;
using test::StateTypes;

/// A normal number; they repeat after a prime number of them, since many take long.
float normal(std::size_t index) {
  static const std::vector<float> values = [] {
    const CounterRandom random(7, 1);
    std::vector<float> result(8191);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = random.normal(i);
    return result;
  }();
  return values[index % values.size()];
}

constexpr StateTypes kBf16 = {};
constexpr StateTypes kFp32 = {.precision = DType::fp32};
constexpr StateTypes kFp16 = {.precision = DType::fp16};

/// A state with room for an offset, so that an update can start at any alignment. `exp_avg` stands for a
/// momentum buffer too, and `exp_avg_sq` for other squares.
struct Buffers {
  StateTypes types;
  std::vector<std::byte> master, exp_avg, exp_avg_sq, exp_avg_slow, gradient, parameter;

  Buffers(const StateTypes& types, std::size_t elements) : types(types) {
    with_state_types(
        types.precision, types.format, [&]<class Precision, class Master>(Precision, Master, auto) {
          fill<Master>(master, elements, [](std::size_t i) {
            if constexpr (std::is_same_v<Master, Remainder>)
              return split_master(normal(4 * i)).remainder;
            else
              return Master(normal(4 * i));
          });
          fill<Precision>(gradient, elements, [](std::size_t i) { return Precision(normal(4 * i + 3)); });
          fill<Precision>(parameter, elements, [](std::size_t i) { return Precision(normal(4 * i)); });
        });
    const auto stored = [&](Moment moment, const auto& value) {
      return test::stored_moment(types.format.format_of(moment), codes_of(moment), elements, value);
    };
    exp_avg = stored(Moment::exp_avg, [](std::size_t i) { return 0.1F * normal(4 * i + 1); });
    exp_avg_slow = stored(Moment::exp_avg_slow, [](std::size_t i) { return 0.1F * normal(4 * i + 9); });
    exp_avg_sq =
        stored(Moment::exp_avg_sq, [](std::size_t i) { return std::abs(0.01F * normal(4 * i + 2)); });
  }

  template <class T, class Value>
  static void fill(std::vector<std::byte>& memory, std::size_t elements, const Value& value) {
    memory.resize(elements * sizeof(T));
    for (std::size_t i = 0; i < elements; ++i) reinterpret_cast<T*>(memory.data())[i] = value(i);
  }
  template <class T>
  static T at(const std::vector<std::byte>& memory, std::size_t index) {
    return reinterpret_cast<const T*>(memory.data())[index];
  }

  OptimizerState state(std::size_t first, std::size_t elements) {
    OptimizerState all = {.rule = types.rule,
                          .precision = types.precision,
                          .format = types.format,
                          .elements = static_cast<std::int64_t>(first + elements),
                          .master = master.data(),
                          .gradient = gradient.data(),
                          .parameter = parameter.data(),
                          .unit = 7};
    moments_of(types.rule).for_each([&](Moment moment) {
      all.of(moment) = (moment == Moment::exp_avg_slow ? exp_avg_slow
                        : test::holds_squares(moment)  ? exp_avg_sq
                                                       : exp_avg)
                           .data();
    });
    return all.part(static_cast<std::int64_t>(first), static_cast<std::int64_t>(elements));
  }
};

void expect_same_bits(const Buffers& a, const Buffers& b) {
  EXPECT_TRUE(a.master == b.master);
  EXPECT_TRUE(a.exp_avg == b.exp_avg);
  EXPECT_TRUE(a.exp_avg_sq == b.exp_avg_sq);
  EXPECT_TRUE(a.exp_avg_slow == b.exp_avg_slow);
  EXPECT_TRUE(a.gradient == b.gradient);
  EXPECT_TRUE(a.parameter == b.parameter);
}

constexpr RuleSettings kRuleSettings = {
    .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .alpha = 0.97F, .momentum = 0.8F};
const UpdateStep kStep = {.policy = {.weight_decay = 0.1F, .settings = kRuleSettings},
                          .learning_rate = 3e-3F,
                          .gradient_scale = 0.37F,
                          .step = 3,
                          .seed = 11};

UpdateCoefficients step_of(UpdateRule rule) {
  UpdateStep step = kStep;
  step.policy.rule = rule;
  return coefficients(step);
}

/// Large enough for several tasks and for non-temporal stores, and odd.
constexpr std::size_t kLarge = 300'007;

void expect_reference_bits(const StateTypes& types, std::size_t first, std::size_t elements) {
  SCOPED_TRACE(::testing::Message() << name_of(types.rule) << ", " << describe(types) << ", " << elements
                                    << " elements from " << first);
  Buffers fast(types, first + elements + 40), plain(types, first + elements + 40);
  update(step_of(types.rule), fast.state(first, elements));
  update_reference(step_of(types.rule), plain.state(first, elements));
  expect_same_bits(fast, plain);
}

/// Runs the case on one instruction set of those that this processor has.
class UpdatesOnEachTarget : public ::testing::TestWithParam<std::int64_t> {
 private:
  OnHighwayTarget target_{GetParam()};
};

// Invariant (UpdatesOnEachTarget.*): The state's format is exact or reproducible.
TEST_P(UpdatesOnEachTarget, GivesTheReferenceBitsAtEverySmallSizeAndAlignmentAndTouchesNothingElse) {
  for (const StateTypes& types : kEveryStateType) {
    for (std::size_t elements = 0; elements < 70; ++elements) {
      for (std::size_t first : {0, 1, 5, 16}) expect_reference_bits(types, first, elements);
    }
  }
}

TEST_P(UpdatesOnEachTarget, GivesTheReferenceBitsForStreamedSizesAtAnyAlignment) {
  for (std::size_t first : {0, 1, 16}) expect_reference_bits(kBf16, first, kLarge);
  for (std::size_t first : {0, 3}) expect_reference_bits(kFp16, first, kLarge);
  for (const UpdateRule rule : kUpdateRules) {
    for (const StateFormat& format :
         {kSplit, kNoMaster, kBf16Moments, kSmallSplit, kSmallNone, kCodedMoments, kCodedSplit, kSmallest})
      expect_reference_bits({DType::bf16, format, rule}, 3, kLarge);
    if (rule != UpdateRule::adamw) expect_reference_bits({DType::bf16, {}, rule}, 1, kLarge);
  }
  expect_reference_bits(kFp32, 3, kLarge);
}

TEST(Updates, PointersOfDifferentAlignmentGiveTheSameBits) {
  for (const StateTypes& types : kEveryStateType) {
    Buffers fast(types, kLarge + 16), plain(types, kLarge + 16);
    for (auto [way, buffers] : {std::pair(&update, &fast), std::pair(&update_reference, &plain)}) {
      OptimizerState state = buffers->state(3, kLarge);
      if (moments_of(types.rule).count() > 0) {
        const Moment moment = moments_of(types.rule).at(0);
        state.of(moment) = buffers->state(4, kLarge).of(moment);
      }
      const bool is_own_master = types.format.is_own_master(types.precision);
      (is_own_master ? state.master : state.parameter) = buffers->state(8, kLarge).parameter;
      way(step_of(types.rule), state, {});
    }
    expect_same_bits(fast, plain);
  }
}

TEST(Updates, AnySplitGivesTheSameBits) {
  std::vector<StateTypes> all = {kBf16};
  for (const UpdateRule rule : kUpdateRules) {
    all.push_back({DType::bf16, kSmallSplit, rule});
    all.push_back({DType::bf16, kSmallNone, rule});
  }
  for (const StateTypes& types : all) {
    Buffers whole(types, kLarge), split(types, kLarge);
    const UpdateCoefficients step = step_of(types.rule);
    update(step, whole.state(0, kLarge));
    std::size_t first = 0;
    for (std::size_t elements : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, std::size_t{99'991}}) {
      update(step, split.state(first, elements));
      first += elements;
    }
    update(step, split.state(first, kLarge - first));
    expect_same_bits(whole, split);
  }
}

// Invariant of numbers (Updates.*): Codes of moments lie in blocks of 64 elements. Any split between blocks
// gives the same bits, and an update of a part of a block keeps the others' numbers or rounds them again.
TEST(Updates, OfCodedMomentsGiveTheSameBitsIfTheyAreSplitBetweenBlocks) {
  for (const UpdateRule rule : kUpdateRules) {
    for (const StateFormat& format : {kCodedMoments, kCodedSplit, kSmallest}) {
      const StateTypes types = {DType::bf16, format, rule};
      Buffers whole(types, kLarge), split(types, kLarge);
      const UpdateCoefficients step = step_of(rule);
      update(step, whole.state(0, kLarge));
      std::size_t first = 0;
      for (std::size_t blocks : {1, 13, 1562}) {
        update(step, split.state(first, blocks * kCodedBlock));
        first += blocks * kCodedBlock;
      }
      update(step, split.state(first, kLarge - first));
      expect_same_bits(whole, split);
    }
  }
}

/// A weight that is its own master keeps the mean of what updates make of it.
TEST(AdamW, WithoutAMasterMovesTheParameterByItsStepInTheMean) {
  constexpr std::size_t kWeights = 4096;
  constexpr std::int64_t kSteps = 200;
  Buffers own({DType::bf16, kNoMaster}, kWeights), whole(kBf16, kWeights);
  for (Buffers* buffers : {&own, &whole}) {
    Buffers::fill<bfloat16>(buffers->gradient, kWeights, [](std::size_t) { return bfloat16(1.0F); });
    for (std::vector<std::byte>* moment : {&buffers->exp_avg, &buffers->exp_avg_sq})
      Buffers::fill<float>(*moment, kWeights, [](std::size_t) { return 0.0F; });
  }
  Buffers::fill<bfloat16>(own.master, kWeights, [](std::size_t) { return bfloat16(1.0F); });
  Buffers::fill<float>(whole.master, kWeights, [](std::size_t) { return 1.0F; });
  UpdateStep settings = kStep;
  settings.policy.weight_decay = 0;
  settings.gradient_scale = 1;
  settings.learning_rate = 1e-4;  // a fortieth of the distance between bf16 numbers below 1
  for (settings.step = 1; settings.step <= kSteps; ++settings.step) {
    update(coefficients(settings), own.state(0, kWeights));
    update(coefficients(settings), whole.state(0, kWeights));
  }
  double mean = 0;
  for (std::size_t i = 0; i < kWeights; ++i)
    mean += static_cast<float>(Buffers::at<bfloat16>(own.master, i)) / double{kWeights};
  EXPECT_NEAR(mean, Buffers::at<float>(whole.master, 0), 5e-4);
  EXPECT_NEAR(Buffers::at<float>(whole.master, 0), 1 - 1e-4 * kSteps, 1e-5);
}

TEST(AdamW, AnyNumberOfThreadsGivesTheSameBits) {
  for (const StateTypes& types : {kFp32, StateTypes{DType::bf16, kSmallSplit},
                                  StateTypes{DType::bf16, kSmallNone}, StateTypes{DType::bf16, kSmallest}}) {
    Buffers one(types, kLarge), three(types, kLarge);
    TaskArena(1).execute([&] { update(coefficients(kStep), one.state(0, kLarge)); });
    TaskArena(3).execute([&] { update(coefficients(kStep), three.state(0, kLarge)); });
    expect_same_bits(one, three);
  }
}

TEST(AdamW, OfASplitMasterIsThatOfTheMasterItself) {
  Buffers split({DType::bf16, kSplit}, kLarge), whole(kBf16, kLarge);
  for (const std::int64_t step : {1, 2, 3}) {
    UpdateStep settings = kStep;
    settings.step = step;
    update(coefficients(settings), split.state(0, kLarge));
    update(coefficients(settings), whole.state(0, kLarge));
  }
  EXPECT_TRUE(split.exp_avg == whole.exp_avg);
  EXPECT_TRUE(split.exp_avg_sq == whole.exp_avg_sq);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kLarge; ++i) {
    const float joined =
        join_master(Buffers::at<bfloat16>(split.parameter, i), Buffers::at<Remainder>(split.master, i));
    wrong += joined == Buffers::at<float>(whole.master, i) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0U);
}

TEST(AdamW, SeedUpdateUnitAndElementChooseHowMomentsAreRounded) {
  const StateTypes types = {DType::bf16, kBf16Moments};
  const auto rounded = [&](std::uint64_t seed, std::int64_t step, std::uint32_t unit, std::int64_t first) {
    Buffers buffers(types, 4096);
    OptimizerState state = buffers.state(0, 4096);
    state.unit = unit;
    state.first = first;
    update(coefficients({.learning_rate = 1e-3F, .step = step, .seed = seed}), state);
    return std::pair(buffers.exp_avg, buffers.exp_avg_sq);
  };
  const auto base = rounded(1, 1, 0, 0);
  EXPECT_EQ(rounded(1, 1, 0, 0), base);
  for (const auto& other :
       {rounded(2, 1, 0, 0), rounded(1, 2, 0, 0), rounded(1, 1, 1, 0), rounded(1, 1, 0, 1)}) {
    EXPECT_NE(other.first, base.first);
    EXPECT_NE(other.second, base.second);
  }
}

TEST(AdamW, FollowsTheFormulaInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  Buffers fast(kFp32, kElements);
  const Buffers before(kFp32, kElements);
  update(coefficients(kStep), fast.state(0, kElements));
  const double b1 = kRuleSettings.beta1, b2 = kRuleSettings.beta2, lr = kStep.learning_rate, t = 3;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double old_master = Buffers::at<float>(before.master, i),
                 old_m = Buffers::at<float>(before.exp_avg, i),
                 old_v = Buffers::at<float>(before.exp_avg_sq, i);
    const double g = double{Buffers::at<float>(before.gradient, i)} * kStep.gradient_scale;
    const double m = b1 * old_m + (1 - b1) * g;
    const double v = b2 * old_v + (1 - b2) * g * g;
    const double decayed = old_master * (1 - lr * kStep.policy.weight_decay);
    const double p = decayed - lr / (1 - std::pow(b1, t)) * m /
                                   (std::sqrt(v / (1 - std::pow(b2, t))) + kRuleSettings.epsilon);
    EXPECT_NEAR(Buffers::at<float>(fast.exp_avg, i), m, 1e-6 * (std::abs(g) + std::abs(old_m)));
    EXPECT_NEAR(Buffers::at<float>(fast.exp_avg_sq, i), v, 1e-6 * v);
    EXPECT_NEAR(Buffers::at<float>(fast.master, i), p, 1e-6 * (std::abs(old_master) + lr));
  }
}

TEST(Sgd, FollowsTheFormulaInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  for (const UpdateRule rule : {UpdateRule::sgd, UpdateRule::sgd_momentum}) {
    const StateTypes types = {DType::fp32, {}, rule};
    Buffers fast(types, kElements);
    const Buffers before(types, kElements);
    update(step_of(rule), fast.state(0, kElements));
    const bool has_buffer = rule == UpdateRule::sgd_momentum;
    for (std::size_t i = 0; i < kElements; ++i) {
      const double old_master = Buffers::at<float>(before.master, i),
                   old_buffer = Buffers::at<float>(before.exp_avg, i);
      const double g = double{Buffers::at<float>(before.gradient, i)} * kStep.gradient_scale +
                       kStep.policy.weight_decay * old_master;
      const double buffer = has_buffer ? kRuleSettings.momentum * old_buffer + g : g;
      EXPECT_NEAR(Buffers::at<float>(fast.exp_avg, i), has_buffer ? buffer : old_buffer, 1e-6);
      EXPECT_NEAR(Buffers::at<float>(fast.master, i), old_master - kStep.learning_rate * buffer, 1e-6);
    }
  }
}

TEST(Sgd, FirstPutsTheGradientIntoTheBuffer) {
  std::vector<float> master = {1, 1}, buffer(2), gradient = {0.25F, -4};
  update(coefficients({.policy = {.rule = UpdateRule::sgd_momentum, .settings = {.momentum = 0.9F}},
                       .learning_rate = 0.5F}),
         {.rule = UpdateRule::sgd_momentum,
          .precision = DType::fp32,
          .elements = 2,
          .master = master.data(),
          .moments = {nullptr, nullptr, buffer.data()},
          .gradient = gradient.data()});
  EXPECT_EQ(buffer, gradient);
  EXPECT_EQ(master, (std::vector<float>{0.875F, 3}));
}

TEST(Lion, FollowsTheFormulaInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  const StateTypes types = {DType::fp32, {}, UpdateRule::lion};
  Buffers fast(types, kElements);
  const Buffers before(types, kElements);
  update(step_of(types.rule), fast.state(0, kElements));
  const double b1 = kRuleSettings.beta1, b2 = kRuleSettings.beta2, lr = kStep.learning_rate;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double old_master = Buffers::at<float>(before.master, i),
                 old_m = Buffers::at<float>(before.exp_avg, i);
    const double g = double{Buffers::at<float>(before.gradient, i)} * kStep.gradient_scale;
    const double direction = b1 * old_m + (1 - b1) * g;
    ASSERT_GT(std::abs(direction), 1e-6) << "its sign would be one of rounding";
    const double decayed = old_master * (1 - lr * kStep.policy.weight_decay);
    EXPECT_NEAR(Buffers::at<float>(fast.exp_avg, i), b2 * old_m + (1 - b2) * g, 1e-6);
    EXPECT_NEAR(Buffers::at<float>(fast.master, i), decayed - std::copysign(lr, direction), 1e-6);
  }
}

TEST_P(UpdatesOnEachTarget, LionStaysWhereItsDirectionIsZeroOrNoNumber) {
  struct Case {
    float exp_avg, gradient, moved;
  };
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr std::array kCases = {Case{0, 0, 1},     Case{0, -0.0F, 1},      Case{1, -1, 1},
                                 Case{kNaN, 1, 1},  Case{0, 1e-30F, 0.75F}, Case{0, -1e-30F, 1.25F},
                                 Case{-1, 2, 0.75F}};
  std::vector<float> master, exp_avg, gradient;
  for (std::size_t i = 0; i < 70; ++i) {
    master.push_back(1);
    exp_avg.push_back(kCases[i % kCases.size()].exp_avg);
    gradient.push_back(kCases[i % kCases.size()].gradient);
  }
  update(coefficients(
             {.policy = {.rule = UpdateRule::lion, .settings = {.beta1 = 0.5F}}, .learning_rate = 0.25}),
         {.rule = UpdateRule::lion,
          .precision = DType::fp32,
          .elements = static_cast<std::int64_t>(master.size()),
          .master = master.data(),
          .moments = {exp_avg.data()},
          .gradient = gradient.data()});
  for (std::size_t i = 0; i < master.size(); ++i) EXPECT_EQ(master[i], kCases[i % kCases.size()].moved) << i;
}

TEST(Ademamix, RaisesAlphaAndTheSlowMeansHalfLifeLinearly) {
  constexpr RuleSettings kSlow = {
      .beta1 = 0.9F, .beta2 = 0.999F, .alpha = 5, .beta3 = 0.9999F, .slow_warmup = 100};
  const auto at = [&](std::int64_t step) {
    return coefficients({.policy = {.rule = UpdateRule::ademamix, .settings = kSlow},
                         .learning_rate = 1,
                         .step = step})
        .ademamix;
  };
  const auto half_life = [](double beta) { return std::log(0.5) / std::log(beta); };
  const double first = half_life(kSlow.beta1), last = half_life(kSlow.beta3);
  for (const std::int64_t step : {1, 37, 99}) {
    const double part = static_cast<double>(step) / 100;
    EXPECT_NEAR(at(step).alpha, 5 * part, 1e-6);
    EXPECT_NEAR(half_life(at(step).beta3), first + part * (last - first), 2e-3 * last);
  }
  for (const std::int64_t step : {100, 101, 1'000'000}) {
    EXPECT_EQ(at(step).alpha, 5);
    EXPECT_EQ(at(step).beta3, kSlow.beta3);
  }
}

TEST(RootRules, FollowTheirFormulasInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  for (const UpdateRule rule : {UpdateRule::rmsprop, UpdateRule::rmsprop_momentum, UpdateRule::adagrad}) {
    const StateTypes types = {DType::fp32, {}, rule};
    Buffers fast(types, kElements);
    const Buffers before(types, kElements);
    update(step_of(rule), fast.state(0, kElements));
    const double keep = rule == UpdateRule::adagrad ? 1 : kRuleSettings.alpha;
    const double add = rule == UpdateRule::adagrad ? 1 : 1 - double{kRuleSettings.alpha};
    const bool has_buffer = rule == UpdateRule::rmsprop_momentum;
    for (std::size_t i = 0; i < kElements; ++i) {
      const double old_master = Buffers::at<float>(before.master, i),
                   old_buffer = Buffers::at<float>(before.exp_avg, i),
                   old_squares = Buffers::at<float>(before.exp_avg_sq, i);
      const double g = double{Buffers::at<float>(before.gradient, i)} * kStep.gradient_scale +
                       kStep.policy.weight_decay * old_master;
      const double squares = keep * old_squares + add * g * g;
      const double divided = g / (std::sqrt(squares) + kRuleSettings.epsilon);
      const double change = has_buffer ? kRuleSettings.momentum * old_buffer + divided : divided;
      EXPECT_NEAR(Buffers::at<float>(fast.exp_avg_sq, i), squares, 1e-6 * squares);
      EXPECT_NEAR(Buffers::at<float>(fast.exp_avg, i), has_buffer ? change : old_buffer, 1e-5);
      EXPECT_NEAR(Buffers::at<float>(fast.master, i), old_master - kStep.learning_rate * change, 1e-6);
    }
  }
}

TEST(RootRules, FirstMoveByTheLearningRateOverTheRootOfWhatASquareAdds) {
  const auto first = [](UpdateRule rule, RuleSettings settings) {
    std::vector<float> master = {1, 1}, squares(2), buffer(2), gradient = {0.25F, -4};
    OptimizerState state = {.rule = rule,
                            .precision = DType::fp32,
                            .elements = 2,
                            .master = master.data(),
                            .gradient = gradient.data()};
    moments_of(rule).for_each(
        [&](Moment moment) { state.of(moment) = (test::holds_squares(moment) ? squares : buffer).data(); });
    settings.epsilon = 1e-10F;
    update(coefficients({.policy = {.rule = rule, .settings = settings}, .learning_rate = 0.25F}), state);
    return master;
  };
  const std::vector<float> by_rate = {0.75F, 1.25F}, by_two_rates = {0.5F, 1.5F};
  EXPECT_EQ(first(UpdateRule::adagrad, {}), by_rate);
  EXPECT_EQ(first(UpdateRule::rmsprop, {.alpha = 0.75F}), by_two_rates);
  EXPECT_EQ(first(UpdateRule::rmsprop_momentum, {.alpha = 0.75F, .momentum = 0.5F}), by_two_rates);
}

TEST(AdamW, TheFirstStepMovesByTheLearningRateAgainstTheGradientsSign) {
  std::vector<float> master = {1, 1}, exp_avg(2), exp_avg_sq(2), gradient = {0.25F, -4};
  const UpdateStep step = {.policy = {.settings = {.beta2 = 0.999F}}, .learning_rate = 0.5F, .step = 1};
  update(coefficients(step), {.precision = DType::fp32,
                              .elements = 2,
                              .master = master.data(),
                              .moments = {exp_avg.data(), exp_avg_sq.data()},
                              .gradient = gradient.data()});
  EXPECT_NEAR(master[0], 0.5, 1e-5);
  EXPECT_NEAR(master[1], 1.5, 1e-5);
}

TEST_P(UpdatesOnEachTarget, RoundedMomentsThatAreNotFiniteStayWhatTheyAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> master(64);
  std::vector<bfloat16> gradient(64, bfloat16(0.0F)), exp_avg, exp_avg_sq, parameter(64);
  for (std::size_t i = 0; i < master.size(); ++i) {
    exp_avg.emplace_back(i % 3 == 0 ? -kInfinity : i % 3 == 1 ? kNaN : 1.0F);
    exp_avg_sq.emplace_back(i % 3 == 0 ? kInfinity : i % 3 == 1 ? kNaN : 1.0F);
  }
  update(coefficients(kStep), {.format = kBf16Moments,
                               .elements = 64,
                               .master = master.data(),
                               .moments = {exp_avg.data(), exp_avg_sq.data()},
                               .gradient = gradient.data(),
                               .parameter = parameter.data()});
  for (std::size_t i = 0; i < master.size(); ++i) {
    const auto m = static_cast<float>(exp_avg[i]), v = static_cast<float>(exp_avg_sq[i]);
    EXPECT_TRUE(i % 3 == 0   ? m == -kInfinity && v == kInfinity
                : i % 3 == 1 ? std::isnan(m) && std::isnan(v)
                             : v < 1)
        << i << ": " << m << ", " << v;
  }
}

/// The same bits, or both NaN: which of two NaNs a sum keeps is the compiler's choice.
template <class T>
void expect_same_values(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
    const T x = Buffers::at<T>(a, i), y = Buffers::at<T>(b, i);
    if constexpr (!std::is_same_v<T, Remainder>) {
      if (std::isnan(static_cast<float>(x)) && std::isnan(static_cast<float>(y))) continue;
    }
    using Bits = std::array<std::byte, sizeof(T)>;
    EXPECT_EQ(std::bit_cast<Bits>(x), std::bit_cast<Bits>(y)) << i;
  }
}

TEST_P(UpdatesOnEachTarget, AnElementThatIsNotFiniteLeavesItsNeighboursBits) {
  constexpr std::size_t kElements = 64;
  for (const StateTypes& types : kEveryStateType) {
    if (types.format.moments == MomentFormat::coded) continue;  // neighbours share an exponent
    with_state_types(
        types.precision, types.format,
        [&]<class Precision, class Master, class Moment>(Precision, Master, Moment) {
          for (const float special :
               {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
            for (std::size_t at = 0; at < kElements; ++at) {
              Buffers fast(types, kElements), plain(types, kElements);
              for (Buffers* buffers : {&fast, &plain}) {
                // The other sign elsewhere: sums of both are NaN.
                reinterpret_cast<Moment*>(buffers->exp_avg.data())[at] = Moment(special);
                reinterpret_cast<Moment*>(buffers->exp_avg.data())[kElements - 1 - at] = Moment(-special);
                reinterpret_cast<Moment*>(buffers->exp_avg_sq.data())[(at + 17) % kElements] =
                    Moment(special);
                reinterpret_cast<Precision*>(buffers->gradient.data())[(at + 5) % kElements] =
                    Precision(special);
                if constexpr (std::is_same_v<Master, float>)
                  reinterpret_cast<float*>(buffers->master.data())[(at + 11) % kElements] = special;
              }
              update(step_of(types.rule), fast.state(0, kElements));
              update_reference(step_of(types.rule), plain.state(0, kElements));
              expect_same_values<Moment>(fast.exp_avg, plain.exp_avg);
              expect_same_values<Moment>(fast.exp_avg_sq, plain.exp_avg_sq);
              if constexpr (std::is_same_v<Master, float>) {
                expect_same_values<Master>(fast.master, plain.master);
                expect_same_values<Precision>(fast.parameter, plain.parameter);
              }
            }
          }
        });
  }
}

TEST_P(UpdatesOnEachTarget, MomentsWhoseSumOverflowsGiveTheReferenceBits) {
  constexpr std::size_t kElements = 64;
  const StateTypes types = {DType::bf16, kBf16Moments};
  Buffers fast(types, kElements), plain(types, kElements);
  for (Buffers* buffers : {&fast, &plain}) {
    for (std::size_t i = 0; i < kElements; ++i)
      reinterpret_cast<bfloat16*>(buffers->exp_avg.data())[i] = bfloat16(3e38F);
  }
  update(coefficients(kStep), fast.state(0, kElements));
  update_reference(coefficients(kStep), plain.state(0, kElements));
  expect_same_bits(fast, plain);
}

/// Without gradient and decay the master stays, so that any value reaches the cast untouched.
template <class T>
void expect_cast_like_the_storage_type(DType dtype, const std::vector<std::uint32_t>& words) {
  std::vector<float> master, exp_avg(words.size()), exp_avg_sq(words.size());
  for (std::uint32_t word : words) master.push_back(std::bit_cast<float>(word));
  std::vector<T> gradient(words.size(), T(0.0F)), parameter(words.size());
  update(coefficients({.learning_rate = 1}), {.precision = dtype,
                                              .elements = static_cast<std::int64_t>(words.size()),
                                              .master = master.data(),
                                              .moments = {exp_avg.data(), exp_avg_sq.data()},
                                              .gradient = gradient.data(),
                                              .parameter = parameter.data()});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::isnan(master[i])) {
      EXPECT_TRUE(std::isnan(static_cast<float>(parameter[i]))) << i;
    } else {
      EXPECT_EQ(parameter[i], T(std::bit_cast<float>(words[i]))) << i;
    }
  }
}

TEST_P(UpdatesOnEachTarget, RoundsTheParameterToNearestEven) {
  // Ties, the largest float, infinities, NaNs and subnormal numbers.
  expect_cast_like_the_storage_type<bfloat16>(
      DType::bf16, {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7fffff, 0x7f800000,
                    0xff800000, 0x7f800001, 0x7fffffff, 0xffc00000, 0x00000001, 0x80000000, 0x00008000,
                    0x00018000, 0xbf808000, 0xbf818000});
  expect_cast_like_the_storage_type<float16>(
      DType::fp16,
      {0x3f800000, 0x3f801000, 0x3f803000, 0x3f801001, 0x3f800fff, 0x477fefff, 0x477ff000, 0x7f7fffff,
       0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff, 0xffc00000, 0x00000001, 0x80000000, 0x33000000,
       0x33000001, 0x33c00000, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000, 0xbf801000, 0xb3c00000});
}

INSTANTIATE_TEST_SUITE_P(Targets, UpdatesOnEachTarget, ::testing::ValuesIn(highway_targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace strata
