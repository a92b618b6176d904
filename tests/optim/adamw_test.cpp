#include "optim/adamw.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include "engine/base/random.h"

namespace strata {
namespace {

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

/// Buffers with room for an offset, so that a state can start at any alignment.
struct Buffers {
  std::vector<float> master, exp_avg, exp_avg_sq, gradient;
  std::vector<bfloat16> gradient_bf16, parameter;

  explicit Buffers(std::size_t elements)
      : master(elements),
        exp_avg(elements),
        exp_avg_sq(elements),
        gradient(elements),
        gradient_bf16(elements),
        parameter(elements) {
    for (std::size_t i = 0; i < elements; ++i) {
      master[i] = normal(4 * i);
      exp_avg[i] = 0.1F * normal(4 * i + 1);
      exp_avg_sq[i] = std::abs(0.01F * normal(4 * i + 2));
      gradient[i] = normal(4 * i + 3);
      gradient_bf16[i] = bfloat16(gradient[i]);
    }
  }

  AdamWState state(DType gradient_dtype, std::size_t first, std::size_t elements, bool cast = true) {
    return {.master = std::span(master).subspan(first, elements),
            .exp_avg = std::span(exp_avg).subspan(first, elements),
            .exp_avg_sq = std::span(exp_avg_sq).subspan(first, elements),
            .gradient = gradient_dtype == DType::fp32
                            ? static_cast<const void*>(gradient.data() + first)
                            : static_cast<const void*>(gradient_bf16.data() + first),
            .gradient_dtype = gradient_dtype,
            .parameter = cast ? parameter.data() + first : nullptr};
  }
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

void expect_same_bits(const Buffers& a, const Buffers& b) {
  EXPECT_TRUE(same_bits(a.master, b.master));
  EXPECT_TRUE(same_bits(a.exp_avg, b.exp_avg));
  EXPECT_TRUE(same_bits(a.exp_avg_sq, b.exp_avg_sq));
  EXPECT_TRUE(same_bits(a.parameter, b.parameter));
}

const AdamWStep kStep = {.learning_rate = 3e-3F,
                         .beta1 = 0.9F,
                         .beta2 = 0.95F,
                         .epsilon = 1e-8F,
                         .weight_decay = 0.1F,
                         .gradient_scale = 0.37F,
                         .step = 3};

/// Large enough for several tasks and for non-temporal stores, and odd.
constexpr std::size_t kLarge = 300'007;

void expect_reference_bits(DType gradient, std::size_t first, std::size_t elements) {
  SCOPED_TRACE(testing::Message() << name_of(gradient) << ", " << elements << " elements from " << first);
  Buffers fast(first + elements + 40), plain(first + elements + 40);
  adamw(kStep, fast.state(gradient, first, elements));
  adamw_reference(kStep, plain.state(gradient, first, elements));
  expect_same_bits(fast, plain);
}

/// Runs the case on one instruction set of those that this processor has.
class AdamWOnEachTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  AdamWOnEachTarget() { choose(GetParam()); }
  ~AdamWOnEachTarget() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(AdamWOnEachTarget, GivesTheReferenceBitsAtEverySmallSizeAndAlignmentAndTouchesNothingElse) {
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    for (std::size_t elements = 0; elements < 70; ++elements) {
      for (std::size_t first : {0, 1, 5, 16}) expect_reference_bits(gradient, first, elements);
    }
  }
}

TEST_P(AdamWOnEachTarget, GivesTheReferenceBitsForStreamedSizesAtAnyAlignment) {
  for (std::size_t first : {0, 1, 16}) expect_reference_bits(DType::bf16, first, kLarge);
  expect_reference_bits(DType::fp32, 3, kLarge);
}

INSTANTIATE_TEST_SUITE_P(Targets, AdamWOnEachTarget, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

TEST(AdamW, PointersOfDifferentAlignmentGiveTheSameBits) {
  Buffers fast(kLarge + 16), plain(kLarge + 16);
  for (auto update : {std::pair(&adamw, &fast), std::pair(&adamw_reference, &plain)}) {
    AdamWState state = update.second->state(DType::bf16, 3, kLarge);
    state.exp_avg = std::span(update.second->exp_avg).subspan(4, kLarge);
    state.parameter = update.second->parameter.data() + 8;
    update.first(kStep, state);
  }
  expect_same_bits(fast, plain);
}

TEST(AdamW, AnySplitGivesTheSameBits) {
  Buffers whole(kLarge), split(kLarge);
  adamw(kStep, whole.state(DType::bf16, 0, kLarge));
  std::size_t first = 0;
  for (std::size_t elements : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, std::size_t{99'991}}) {
    adamw(kStep, split.state(DType::bf16, first, elements));
    first += elements;
  }
  adamw(kStep, split.state(DType::bf16, first, kLarge - first));
  expect_same_bits(whole, split);
}

TEST(AdamW, AnyNumberOfThreadsGivesTheSameBits) {
  const oneapi::tbb::global_control allow(oneapi::tbb::global_control::max_allowed_parallelism, 3);
  Buffers one(kLarge), three(kLarge);
  oneapi::tbb::task_arena(1).execute([&] { adamw(kStep, one.state(DType::fp32, 0, kLarge)); });
  oneapi::tbb::task_arena(3).execute([&] { adamw(kStep, three.state(DType::fp32, 0, kLarge)); });
  expect_same_bits(one, three);
}

TEST(AdamW, WithoutAParameterTheMasterIsTheSame) {
  Buffers with(kLarge), without(kLarge);
  adamw(kStep, with.state(DType::fp32, 0, kLarge));
  adamw(kStep, without.state(DType::fp32, 0, kLarge, false));
  EXPECT_TRUE(same_bits(with.master, without.master));
  EXPECT_EQ(without.parameter, std::vector<bfloat16>(kLarge, bfloat16(0.0F)));
}

TEST(AdamW, FollowsTheFormulaInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  Buffers fast(kElements);
  const Buffers before(kElements);
  adamw(kStep, fast.state(DType::fp32, 0, kElements));
  const double b1 = kStep.beta1, b2 = kStep.beta2, lr = kStep.learning_rate, t = 3;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double g = double{before.gradient[i]} * kStep.gradient_scale;
    const double m = b1 * before.exp_avg[i] + (1 - b1) * g;
    const double v = b2 * before.exp_avg_sq[i] + (1 - b2) * g * g;
    const double decayed = before.master[i] * (1 - lr * kStep.weight_decay);
    const double p =
        decayed - lr / (1 - std::pow(b1, t)) * m / (std::sqrt(v / (1 - std::pow(b2, t))) + kStep.epsilon);
    EXPECT_NEAR(fast.exp_avg[i], m, 1e-6 * (std::abs(g) + std::abs(before.exp_avg[i])));
    EXPECT_NEAR(fast.exp_avg_sq[i], v, 1e-6 * v);
    EXPECT_NEAR(fast.master[i], p, 1e-6 * (std::abs(before.master[i]) + lr));
  }
}

TEST(AdamW, TheFirstStepMovesByTheLearningRateAgainstTheGradientsSign) {
  std::vector<float> master = {1, 1}, exp_avg(2), exp_avg_sq(2), gradient = {0.25F, -4};
  AdamWStep step = {.learning_rate = 0.5F, .beta2 = 0.999F, .step = 1};
  adamw(step, {.master = master, .exp_avg = exp_avg, .exp_avg_sq = exp_avg_sq, .gradient = gradient.data()});
  EXPECT_NEAR(master[0], 0.5, 1e-5);
  EXPECT_NEAR(master[1], 1.5, 1e-5);
}

TEST(AdamW, TheCastParameterIsTheMasterRoundedToNearestEven) {
  // Without gradient and decay the master stays: ties, the largest float, infinities and NaNs reach the cast
  // untouched.
  const std::vector<std::uint32_t> words = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff,
                                            0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff,
                                            0xffc00000, 0x00000001, 0x80000000, 0x00008000, 0x00018000,
                                            0xbf808000, 0xbf818000};
  std::vector<float> master, exp_avg(words.size()), exp_avg_sq(words.size()), gradient(words.size());
  for (std::uint32_t word : words) master.push_back(std::bit_cast<float>(word));
  std::vector<bfloat16> parameter(words.size());
  adamw({.learning_rate = 1}, {.master = master,
                               .exp_avg = exp_avg,
                               .exp_avg_sq = exp_avg_sq,
                               .gradient = gradient.data(),
                               .parameter = parameter.data()});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::isnan(master[i])) {
      EXPECT_TRUE(std::isnan(static_cast<float>(parameter[i]))) << i;
    } else {
      EXPECT_EQ(parameter[i], bfloat16(std::bit_cast<float>(words[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace strata
