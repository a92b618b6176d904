#include "optim/momentum.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/storage_type.h"
#include "optim/update.h"
#include "tests/support/highway_target.h"
#include "tests/support/state_types.h"

namespace strata {
namespace {

using test::StateTypes;

UpdateCoefficients muon_step(float gradient_scale) {
  return coefficients({.policy = {.rule = UpdateRule::muon, .settings = {.momentum = 0.95, .scale = 3}},
                       .learning_rate = 3e-3,
                       .gradient_scale = gradient_scale,
                       .step = 3,
                       .seed = 11});
}

/// A gradient, its momentum buffer and the direction behind them.
struct Momentum {
  StateTypes types;
  std::vector<std::byte> gradient, buffer, direction;

  Momentum(const StateTypes& types, std::size_t elements) : types(types) {
    const CounterRandom random(7, 1);
    fill(gradient, types.precision, elements, [&](std::size_t i) { return random.normal(2 * i); });
    buffer = test::stored_moment(types.format.moments, MomentCodes::with_sign, elements,
                                 [&](std::size_t i) { return random.normal(2 * i + 1); });
    fill(direction, types.precision, elements, [](std::size_t) { return -1.0F; });
  }

  template <typename Value>
  static void fill(std::vector<std::byte>& memory, DType dtype, std::size_t elements, const Value& value) {
    memory.resize(elements * static_cast<std::size_t>(size_of(dtype)));
    with_storage_type(dtype, [&]<typename T>(T) {
      for (std::size_t i = 0; i < elements; ++i) reinterpret_cast<T*>(memory.data())[i] = T(value(i));
    });
  }
  static float at(const std::vector<std::byte>& memory, DType dtype, std::size_t i) {
    return with_storage_type(dtype, [&]<typename T>(T) {
      return static_cast<float>(reinterpret_cast<const T*>(memory.data())[i]);
    });
  }

  OptimizerState state(std::size_t first, std::size_t elements) {
    OptimizerState state = {.rule = UpdateRule::muon,
                            .precision = types.precision,
                            .format = types.format,
                            .elements = static_cast<std::int64_t>(elements),
                            .gradient = offset(gradient, types.precision, first),
                            .unit = 7,
                            .first = static_cast<std::int64_t>(first)};
    state.of(kMixedMoment) = buffer.data() + types.format.moment_offset(kMixedMoment, 0, state.first);
    return state;
  }
  void* direction_from(std::size_t first) { return offset(direction, types.precision, first); }

  static std::byte* offset(std::vector<std::byte>& memory, DType dtype, std::size_t first) {
    return memory.data() + first * static_cast<std::size_t>(size_of(dtype));
  }
};

class MomentumOnEachTarget : public ::testing::TestWithParam<std::int64_t> {
 private:
  OnHighwayTarget target_{GetParam()};
};

// Invariant of numbers (MomentumOnEachTarget.*): Momentum of matrices is computed element by element. Every
// instruction set gives the bits of the scalar code, and a direction may take its gradient's place.
TEST_P(MomentumOnEachTarget, GivesTheReferenceBitsAtEverySizeAndTouchesNothingElse) {
  for (const StateTypes& types : test::kEveryFormat) {
    for (const std::size_t elements : {0, 1, 3, 31, 64, 1023, 70'001}) {
      SCOPED_TRACE(::testing::Message() << name_of(types.precision) << ", momentum "
                                        << name_of(types.format.moments) << ", " << elements);
      constexpr std::size_t kFirst = 5;
      Momentum fast(types, kFirst + elements + 9), plain = fast;
      mix_momentum(muon_step(0.37F), fast.state(kFirst, elements), fast.direction_from(kFirst));
      mix_momentum_reference(muon_step(0.37F), plain.state(kFirst, elements), plain.direction_from(kFirst));
      EXPECT_TRUE(fast.gradient == plain.gradient);
      EXPECT_TRUE(fast.buffer == plain.buffer);
      EXPECT_TRUE(fast.direction == plain.direction);
      Momentum in_place(types, kFirst + elements + 9);
      mix_momentum(muon_step(0.37F), in_place.state(kFirst, elements),
                   Momentum::offset(in_place.gradient, types.precision, kFirst));
      EXPECT_TRUE(in_place.buffer == plain.buffer);
      for (std::size_t i = 0; i < elements; ++i) {
        EXPECT_EQ(Momentum::at(in_place.gradient, types.precision, kFirst + i),
                  Momentum::at(plain.direction, types.precision, kFirst + i));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MomentumOnEachTarget, ::testing::ValuesIn(highway_targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

TEST(Momentum, IsAMeanOfGradientsAndTheDirectionLooksAheadOfIt) {
  Momentum one({.precision = DType::fp32}, 1);
  const float gradient = Momentum::at(one.gradient, DType::fp32, 0) * 0.5F,
              buffer = Momentum::at(one.buffer, DType::fp32, 0);
  mix_momentum(muon_step(0.5F), one.state(0, 1), one.direction_from(0));
  const float mean = 0.95F * buffer + 0.05F * gradient;
  EXPECT_NEAR(Momentum::at(one.buffer, DType::fp32, 0), mean, 1e-6);
  EXPECT_NEAR(Momentum::at(one.direction, DType::fp32, 0), (0.95F * mean + 0.05F * gradient) / 0.5F, 1e-6);
}

TEST(Momentum, UpdateTakesTheDirectionAsItIsAndScalesTheRateButNotTheDecay) {
  float weight = 2, direction = 0.5F;
  OptimizerState state = {.rule = UpdateRule::muon,
                          .precision = DType::fp32,
                          .elements = 1,
                          .master = &weight,
                          .gradient = &direction};
  const UpdateStep step = {
      .policy = {.rule = UpdateRule::muon, .weight_decay = 0.1, .settings = {.scale = 3}},
      .learning_rate = 0.01,
      .gradient_scale = 0.37F};
  update(coefficients(step), state);
  EXPECT_FLOAT_EQ(weight, 2 * (1 - 0.01F * 0.1F) - 3 * 0.01F * 0.5F);
}

}  // namespace
}  // namespace strata
