// Single values on which kernels must not cut corners.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/device/cpu/cpu_device.h"

namespace strata {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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
  device.make_kernels()->cast({values.data(), DType::fp32, 1, count},
                              {rounded.data(), DType::bf16, 1, count});
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(rounded[i].bits, bfloat16(values[i]).bits)
        << std::hex << std::bit_cast<std::uint32_t>(values[i]);
  }
}

/// A poisoned activation must reach the loss, where the run notices it.
TEST(NaN, PassesThroughEveryActivationAndTheLoss) {
  CpuDevice device({.threads = 1, .link = {}});
  const std::unique_ptr<Kernels> kernels = device.make_kernels();
  std::vector<float> x(40, 1.0F), out(40), gate_up(80, 1.0F), loss(1);
  x[5] = kNaN;
  x[37] = kNaN;
  gate_up[3] = kNaN;
  kernels->gelu({x.data(), DType::fp32, 1, 40}, {out.data(), DType::fp32, 1, 40});
  EXPECT_TRUE(std::isnan(out[5]) && std::isnan(out[37]) && !std::isnan(out[6]));
  kernels->swiglu({gate_up.data(), DType::fp32, 1, 80}, {out.data(), DType::fp32, 1, 40});
  EXPECT_TRUE(std::isnan(out[3]) && !std::isnan(out[4]));
  const std::vector<std::int32_t> target = {0};
  kernels->cross_entropy({.logits = {x.data(), DType::fp32, 1, 40},
                          .targets = target,
                          .losses = {loss.data(), DType::fp32, 1, 1}});
  EXPECT_TRUE(std::isnan(loss[0]));
}

TEST(Gelu, OfLargeArgumentsIsTheArgumentOrZero) {
  CpuDevice device({.threads = 1, .link = {}});
  std::vector<float> x = {100.0F, -100.0F, 1e4F, -1e4F, 0.0F};
  device.make_kernels()->gelu({x.data(), DType::fp32, 1, 5}, {x.data(), DType::fp32, 1, 5});
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
  device.make_kernels()->cross_entropy({.logits = {logits.data(), DType::fp32, 1, 20},
                                        .targets = target,
                                        .losses = {loss.data(), DType::fp32, 1, 1}});
  const float others = 19 * std::exp(-12.0F);
  EXPECT_NEAR(logits[4] / (-others / (1 + others)), 1, 2e-3);
}

TEST(CrossEntropy, SurvivesLogitsThatWouldOverflowExp) {
  CpuDevice device({.threads = 1, .link = {}});
  std::vector<float> logits = {1000.0F, 1001.0F, -1000.0F};
  std::vector<float> loss(1);
  const std::vector<std::int32_t> target = {0};
  device.make_kernels()->cross_entropy({.logits = {logits.data(), DType::fp32, 1, 3},
                                        .targets = target,
                                        .losses = {loss.data(), DType::fp32, 1, 1}});
  EXPECT_NEAR(loss[0], std::log(1 + std::exp(1.0F)), 1e-5);
}

}  // namespace
}  // namespace strata
