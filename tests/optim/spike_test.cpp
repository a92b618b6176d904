// Which norms of gradients are spikes.
#include "optim/spike.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strata {
namespace {

constexpr SpikeSettings kGuard = {.factor = 3, .window = 10};

/// Whether the step is skipped; counts it.
bool spikes(Counters& counters, double norm) {
  const bool spiked = is_spike(kGuard, counters, norm);
  counters.mean_norm = next_mean_norm(kGuard, counters, norm);
  ++counters.step;
  ++(spiked ? counters.skipped : counters.updates);
  return spiked;
}

// Invariant of numbers (Spike.*): A spike is a norm above a factor times the mean of those before. The mean
// follows norms that stay high.
TEST(Spike, IsFarAboveTheMeanOfTheStepsBefore) {
  Counters counters;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(spikes(counters, i % 2 == 0 ? 1.5 : 0.5));
  EXPECT_NEAR(counters.mean_norm, 1, 1e-12) << "of the first steps it is the mean";
  EXPECT_FALSE(spikes(counters, 2.9));
  EXPECT_TRUE(spikes(counters, 3.8));
  EXPECT_TRUE(spikes(counters, 1e30));
  EXPECT_FALSE(spikes(counters, 1));
  EXPECT_EQ(counters.skipped, 2);
}

TEST(Spike, IsNoneBeforeTheWindowIsFull) {
  Counters counters;
  for (int i = 0; i < 9; ++i) spikes(counters, 1);
  EXPECT_FALSE(spikes(counters, 100));
}

TEST(Spike, OfAnyHeightMovesTheMeanByAsMuch) {
  Counters low, high;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(spikes(low, 1) || spikes(high, 1));
  EXPECT_TRUE(spikes(low, 3.1));
  EXPECT_TRUE(spikes(high, 1e300));
  EXPECT_EQ(low.mean_norm, high.mean_norm);
  int skipped = 1;
  while (spikes(low, 20)) ++skipped;
  EXPECT_LT(skipped, 20) << "norms that stay high are learned from again";
  EXPECT_GT(skipped, 5);
}

TEST(Spike, NeedsAFactorAndAMean) {
  const Counters without_mean = {.step = 500, .updates = 500};
  EXPECT_FALSE(is_spike(kGuard, without_mean, 5)) << "a checkpoint of an older program";
  EXPECT_EQ(next_mean_norm(kGuard, without_mean, 5), 5);
  EXPECT_FALSE(is_spike(SpikeSettings(), {.updates = 500, .mean_norm = 1}, 1e9));
}

}  // namespace
}  // namespace strata
