// Single values on which kernels must not cut corners.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/device/activation_calls.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/loss_calls.h"
#include "tests/device/kernel_scenarios.h"
#include "tests/support/highway_target.h"

namespace strata {
namespace {

TEST(Cast, RoundsToBf16LikeTheStorageTypeBitForBit) {
  std::vector<float> values = {0.0F,  -0.0F,   kInfinity, -kInfinity,    kNaN,
                               -kNaN, 3.4e38F, 1e-40F,    1.1754944e-38F};
  values.push_back(std::bit_cast<float>(0x7f800001U));  // a signalling NaN whose payload would round away
  values.push_back(std::bit_cast<float>(0x7f7fffffU));  // rounds to infinity
  for (std::uint32_t low : {0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
    for (std::uint32_t high : {0x3f80U, 0x3f81U, 0xbf80U, 0x0000U, 0x007fU, 0x80ffU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::vector<bfloat16> rounded(values.size());
  CpuDevice device({.threads = 1, .link = {}});
  const auto count = static_cast<std::int64_t>(values.size());
  device.make_stream()->kernels().run(
      Cast{{values.data(), DType::fp32, 1, count}, {rounded.data(), DType::bf16, 1, count}});
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(rounded[i].bits, bfloat16(values[i]).bits)
        << std::hex << std::bit_cast<std::uint32_t>(values[i]);
  }
}

/// Runs the case on one instruction set of those that this processor has.
class CastOnEachTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void cast(const Matrix& x, const Matrix& out) { device_.make_stream()->kernels().run(Cast{x, out}); }

 private:
  OnHighwayTarget target_{GetParam()};
  CpuDevice device_{{.threads = 1, .link = {}}};
};

TEST_P(CastOnEachTarget, RoundsToFp16LikeTheStorageTypeBitForBit) {
  std::vector<float> values = {kInfinity, kNaN, 3.4e38F, 1e-40F, std::bit_cast<float>(0x7f800001U)};
  // All halves, and around the middle between each and its neighbour.
  for (std::uint32_t low = 0; low < 0x7c00; ++low) {
    const std::uint32_t words[] = {low << 13, (low << 13) + 0xfff, (low << 13) + 0x1000,
                                   (low << 13) + 0x1001};
    for (const std::uint32_t word : words) {
      values.push_back(std::bit_cast<float>(word + 0x38000000U));  // of normal numbers
      values.push_back(static_cast<float>(word) * 0x1p-37F);       // of subnormal ones
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  std::vector<float16> rounded(values.size());
  const auto count = static_cast<std::int64_t>(values.size());
  cast({values.data(), DType::fp32, 1, count}, {rounded.data(), DType::fp16, 1, count});
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += rounded[i] == float16(values[i]) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

TEST_P(CastOnEachTarget, ReadsEveryFp16) {
  constexpr std::int64_t kPatterns = 1 << 16;
  std::vector<float16> halves(kPatterns);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> values(kPatterns);
  cast({halves.data(), DType::fp16, 1, kPatterns}, {values.data(), DType::fp32, 1, kPatterns});
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto expected = static_cast<float>(halves[i]);
    const bool same = std::isnan(expected) ? std::isnan(values[i]) : values[i] == expected;
    wrong += same && std::signbit(values[i]) == std::signbit(expected) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, CastOnEachTarget, ::testing::ValuesIn(highway_targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

/// A poisoned activation must reach the loss, where the run notices it.
TEST(NaN, PassesThroughEveryActivationAndTheLoss) {
  CpuDevice device({.threads = 1, .link = {}});
  const std::unique_ptr<Stream> stream = device.make_stream();
  std::vector<float> x(40, 1.0F), out(40), gate_up(80, 1.0F), loss(1);
  x[5] = kNaN;
  x[37] = kNaN;
  gate_up[3] = kNaN;
  stream->kernels().run(ActivationForward{
      Activation::gelu_tanh, {x.data(), DType::fp32, 1, 40}, {out.data(), DType::fp32, 1, 40}});
  EXPECT_TRUE(std::isnan(out[5]) && std::isnan(out[37]) && !std::isnan(out[6]));
  stream->kernels().run(
      GatedForward{Activation::silu, {gate_up.data(), DType::fp32, 1, 80}, {out.data(), DType::fp32, 1, 40}});
  EXPECT_TRUE(std::isnan(out[3]) && !std::isnan(out[4]));
  const std::vector<std::int32_t> target = {0};
  stream->kernels().run(CrossEntropy{.logits = {x.data(), DType::fp32, 1, 40},
                                     .targets = target,
                                     .losses = {loss.data(), DType::fp32, 1, 1}});
  EXPECT_TRUE(std::isnan(loss[0]));
}

TEST(Gelu, OfLargeArgumentsIsTheArgumentOrZero) {
  CpuDevice device({.threads = 1, .link = {}});
  std::vector<float> x = {100.0F, -100.0F, 1e4F, -1e4F, 0.0F};
  device.make_stream()->kernels().run(
      ActivationForward{Activation::gelu_tanh, {x.data(), DType::fp32, 1, 5}, {x.data(), DType::fp32, 1, 5}});
  EXPECT_EQ(x[0], 100.0F);
  EXPECT_EQ(x[2], 1e4F);
  EXPECT_NEAR(x[1], 0, 1e-30);
  EXPECT_NEAR(x[3], 0, 1e-30);
  EXPECT_EQ(x[4], 0.0F);
}

TEST(CrossEntropy, OfAConfidentRightAnswerKeepsItsSmallGradient) {
  CpuDevice device({.threads = 1, .link = {}});
  std::vector<float> logits(20, 0.0F), loss(1);
  logits[4] = 12.0F;
  const std::vector<std::int32_t> target = {4};
  device.make_stream()->kernels().run(CrossEntropy{.logits = {logits.data(), DType::fp32, 1, 20},
                                                   .targets = target,
                                                   .losses = {loss.data(), DType::fp32, 1, 1}});
  const float others = 19 * std::exp(-12.0F);
  EXPECT_NEAR(logits[4] / (-others / (1 + others)), 1, 2e-3);
}

TEST(CrossEntropy, OfPartsIsThatOfTheWhole) {
  for (const float soft_cap : {0.0F, 3.0F}) {
    const std::vector<OperandMemory> whole =
        run_on_cpu(cross_entropy_scenario(DType::fp32, 7, 100, 3, true, soft_cap), 1);
    const std::vector<OperandMemory> parts =
        run_on_cpu(parts_of_cross_entropy_scenario(DType::fp32, 7, 100, 3, soft_cap), 1);
    for (std::int64_t row = 0; row < 7; ++row) {
      EXPECT_NEAR(parts[1].at(0, row), whole[1].at(0, row), 1e-6 * whole[1].at(0, row));
      for (std::int64_t column = 0; column < 100; ++column)
        EXPECT_NEAR(parts[0].at(row, column), whole[0].at(row, column), 1e-4);
    }
  }
}

TEST(CrossEntropy, SurvivesLogitsThatWouldOverflowExp) {
  CpuDevice device({.threads = 1, .link = {}});
  std::vector<float> logits = {1000.0F, 1001.0F, -1000.0F};
  std::vector<float> loss(1);
  const std::vector<std::int32_t> target = {0};
  device.make_stream()->kernels().run(CrossEntropy{.logits = {logits.data(), DType::fp32, 1, 3},
                                                   .targets = target,
                                                   .losses = {loss.data(), DType::fp32, 1, 1}});
  EXPECT_NEAR(loss[0], std::log(1 + std::exp(1.0F)), 1e-5);
}

}  // namespace
}  // namespace strata
