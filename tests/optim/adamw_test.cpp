#include "optim/adamw.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/random.h"
#include "engine/base/task_arena.h"
#include "tests/support/vector_target.h"

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

/// What a gradient and a parameter are stored in.
struct Types {
  DType gradient = DType::bf16;
  DType parameter = DType::bf16;
};
constexpr Types kBf16 = {};
constexpr Types kFp32Gradient = {.gradient = DType::fp32};
constexpr Types kFp16 = {.gradient = DType::fp16, .parameter = DType::fp16};
constexpr Types kEveryTypes[] = {
    kBf16, kFp32Gradient, kFp16, {.gradient = DType::fp32, .parameter = DType::fp16}};

/// Buffers with room for an offset, so that a state can start at any alignment.
struct Buffers {
  std::vector<float> master, exp_avg, exp_avg_sq, gradient;
  std::vector<bfloat16> gradient_bf16;
  std::vector<float16> gradient_fp16;
  std::vector<std::uint16_t> parameter;  ///< bits of bf16 or fp16

  explicit Buffers(std::size_t elements)
      : master(elements),
        exp_avg(elements),
        exp_avg_sq(elements),
        gradient(elements),
        gradient_bf16(elements),
        gradient_fp16(elements),
        parameter(elements) {
    for (std::size_t i = 0; i < elements; ++i) {
      master[i] = normal(4 * i);
      exp_avg[i] = 0.1F * normal(4 * i + 1);
      exp_avg_sq[i] = std::abs(0.01F * normal(4 * i + 2));
      gradient[i] = normal(4 * i + 3);
      gradient_bf16[i] = bfloat16(gradient[i]);
      gradient_fp16[i] = float16(gradient[i]);
    }
  }

  const void* gradient_from(DType dtype, std::size_t first) const {
    if (dtype == DType::fp32) return gradient.data() + first;
    return dtype == DType::bf16 ? static_cast<const void*>(gradient_bf16.data() + first)
                                : gradient_fp16.data() + first;
  }

  AdamWState state(const Types& types, std::size_t first, std::size_t elements, bool cast = true) {
    return {.master = std::span(master).subspan(first, elements),
            .exp_avg = std::span(exp_avg).subspan(first, elements),
            .exp_avg_sq = std::span(exp_avg_sq).subspan(first, elements),
            .gradient = gradient_from(types.gradient, first),
            .gradient_dtype = types.gradient,
            .parameter = cast ? parameter.data() + first : nullptr,
            .parameter_dtype = types.parameter};
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

void expect_reference_bits(const Types& types, std::size_t first, std::size_t elements) {
  SCOPED_TRACE(testing::Message() << name_of(types.gradient) << " to " << name_of(types.parameter) << ", "
                                  << elements << " elements from " << first);
  Buffers fast(first + elements + 40), plain(first + elements + 40);
  adamw(coefficients(kStep), fast.state(types, first, elements));
  adamw_reference(coefficients(kStep), plain.state(types, first, elements));
  expect_same_bits(fast, plain);
}

/// Runs the case on one instruction set of those that this processor has.
class AdamWOnEachTarget : public testing::TestWithParam<std::int64_t> {
 private:
  VectorTarget target_{GetParam()};
};

TEST_P(AdamWOnEachTarget, GivesTheReferenceBitsAtEverySmallSizeAndAlignmentAndTouchesNothingElse) {
  for (const Types& types : kEveryTypes) {
    for (std::size_t elements = 0; elements < 70; ++elements) {
      for (std::size_t first : {0, 1, 5, 16}) expect_reference_bits(types, first, elements);
    }
  }
}

TEST_P(AdamWOnEachTarget, GivesTheReferenceBitsForStreamedSizesAtAnyAlignment) {
  for (std::size_t first : {0, 1, 16}) expect_reference_bits(kBf16, first, kLarge);
  for (std::size_t first : {0, 3}) expect_reference_bits(kFp16, first, kLarge);
  expect_reference_bits(kFp32Gradient, 3, kLarge);
}

TEST(AdamW, PointersOfDifferentAlignmentGiveTheSameBits) {
  Buffers fast(kLarge + 16), plain(kLarge + 16);
  for (auto update : {std::pair(&adamw, &fast), std::pair(&adamw_reference, &plain)}) {
    AdamWState state = update.second->state(kBf16, 3, kLarge);
    state.exp_avg = std::span(update.second->exp_avg).subspan(4, kLarge);
    state.parameter = update.second->parameter.data() + 8;
    update.first(coefficients(kStep), state);
  }
  expect_same_bits(fast, plain);
}

TEST(AdamW, AnySplitGivesTheSameBits) {
  Buffers whole(kLarge), split(kLarge);
  adamw(coefficients(kStep), whole.state(kBf16, 0, kLarge));
  std::size_t first = 0;
  for (std::size_t elements : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, std::size_t{99'991}}) {
    adamw(coefficients(kStep), split.state(kBf16, first, elements));
    first += elements;
  }
  adamw(coefficients(kStep), split.state(kBf16, first, kLarge - first));
  expect_same_bits(whole, split);
}

TEST(AdamW, AnyNumberOfThreadsGivesTheSameBits) {
  Buffers one(kLarge), three(kLarge);
  TaskArena(1).execute([&] { adamw(coefficients(kStep), one.state(kFp32Gradient, 0, kLarge)); });
  TaskArena(3).execute([&] { adamw(coefficients(kStep), three.state(kFp32Gradient, 0, kLarge)); });
  expect_same_bits(one, three);
}

TEST(AdamW, WithoutAParameterTheMasterIsTheSame) {
  Buffers with(kLarge), without(kLarge);
  adamw(coefficients(kStep), with.state(kFp32Gradient, 0, kLarge));
  adamw(coefficients(kStep), without.state(kFp32Gradient, 0, kLarge, false));
  EXPECT_TRUE(same_bits(with.master, without.master));
  EXPECT_EQ(without.parameter, std::vector<std::uint16_t>(kLarge));
}

TEST(AdamW, FollowsTheFormulaInDoublePrecision) {
  constexpr std::size_t kElements = 1000;
  Buffers fast(kElements);
  const Buffers before(kElements);
  adamw(coefficients(kStep), fast.state(kFp32Gradient, 0, kElements));
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
  adamw(coefficients(step),
        {.master = master, .exp_avg = exp_avg, .exp_avg_sq = exp_avg_sq, .gradient = gradient.data()});
  EXPECT_NEAR(master[0], 0.5, 1e-5);
  EXPECT_NEAR(master[1], 1.5, 1e-5);
}

/// Without gradient and decay the master stays, so that any value reaches the cast untouched.
template <class T>
void expect_cast_like_the_storage_type(DType dtype, const std::vector<std::uint32_t>& words) {
  std::vector<float> master, exp_avg(words.size()), exp_avg_sq(words.size()), gradient(words.size());
  for (std::uint32_t word : words) master.push_back(std::bit_cast<float>(word));
  std::vector<T> parameter(words.size());
  adamw(coefficients({.learning_rate = 1}), {.master = master,
                                             .exp_avg = exp_avg,
                                             .exp_avg_sq = exp_avg_sq,
                                             .gradient = gradient.data(),
                                             .parameter = parameter.data(),
                                             .parameter_dtype = dtype});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::isnan(master[i])) {
      EXPECT_TRUE(std::isnan(static_cast<float>(parameter[i]))) << i;
    } else {
      EXPECT_EQ(parameter[i], T(std::bit_cast<float>(words[i]))) << i;
    }
  }
}

TEST_P(AdamWOnEachTarget, RoundsTheParameterToNearestEven) {
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

INSTANTIATE_TEST_SUITE_P(Targets, AdamWOnEachTarget, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace strata
