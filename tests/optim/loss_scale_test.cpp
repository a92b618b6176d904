#include "optim/loss_scale.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr LossScaleSettings kSettings = {.initial = 1024, .growth = 2, .backoff = 0.5, .interval = 3};

LossScale after(LossScale scale, std::initializer_list<bool> finite) {
  for (const bool step : finite) scale = next_loss_scale(scale, kSettings, step);
  return scale;
}

TEST(LossScale, GrowsAfterAnIntervalOfFiniteSteps) {
  EXPECT_EQ(after({1024, 0}, {true, true}), (LossScale{1024, 2}));
  EXPECT_EQ(after({1024, 0}, {true, true, true}), (LossScale{2048, 0}));
  EXPECT_EQ(after({1024, 0}, {true, true, true, true}), (LossScale{2048, 1}));
}

TEST(LossScale, BacksOffAtOnceAndCountsAnew) {
  EXPECT_EQ(after({1024, 2}, {false}), (LossScale{512, 0}));
  EXPECT_EQ(after({1024, 0}, {true, false, true, true, true}), (LossScale{1024, 0}));
}

TEST(LossScale, StaysANormalNumber) {
  EXPECT_EQ(after({0x1p-126F, 0}, {false}).scale, 0x1p-126F);
  EXPECT_EQ(after({0x1p127F, 2}, {true}).scale, 0x1p127F);
}

}  // namespace
}  // namespace strata
