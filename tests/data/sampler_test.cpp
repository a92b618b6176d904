#include "engine/input/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace strata {
namespace {

std::vector<std::int64_t> values_of(const Permutation& permutation, std::int64_t size) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(permutation(i));
  return values;
}

TEST(Permutation, IsABijectionForEverySize) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    std::vector<std::int64_t> values = values_of(Permutation(size, 42, 3), size);
    std::ranges::sort(values);
    for (std::int64_t i = 0; i < size; ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << "size " << size;
  }
  for (const std::int64_t size : {4095, 4096, 4097, 10'007}) {
    std::vector<bool> seen(static_cast<std::size_t>(size), false);
    for (const std::int64_t value : values_of(Permutation(size, 1, 0), size)) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[static_cast<std::size_t>(value)]);
      seen[static_cast<std::size_t>(value)] = true;
    }
  }
}

TEST(Permutation, StaysInHugeRanges) {
  for (const std::int64_t size : {(std::int64_t{1} << 40) + 1, std::int64_t{1} << 62}) {
    const Permutation permutation(size, 7, 0);
    std::set<std::int64_t> values;
    for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, size / 2, size - 1}) {
      const std::int64_t value = permutation(index);
      EXPECT_GE(value, 0);
      EXPECT_LT(value, size);
      EXPECT_TRUE(values.insert(value).second);
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpochAndNothingElse) {
  constexpr std::int64_t kSize = 100;
  const auto values = values_of(Permutation(kSize, 1, 0), kSize);
  EXPECT_EQ(values, values_of(Permutation(kSize, 1, 0), kSize));
  EXPECT_NE(values, values_of(Permutation(kSize, 2, 0), kSize));
  EXPECT_NE(values, values_of(Permutation(kSize, 1, 1), kSize));
  EXPECT_NE(values_of(Permutation(kSize, 2, 0), kSize), values_of(Permutation(kSize, 1, 1), kSize));
}

TEST(Permutation, SendsEveryIndexEverywhere) {
  // Over many epochs, each of the 8 × 8 pairs (index, value) is as likely as any other. The bound is 5
  // deviations.
  constexpr std::int64_t kSize = 8;
  constexpr int kEpochs = 4000;
  std::vector<int> counts(kSize * kSize, 0);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 5, epoch);
    for (std::int64_t i = 0; i < kSize; ++i) ++counts[static_cast<std::size_t>(i * kSize + permutation(i))];
  }
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / 8, 105);
}

TEST(Permutation, LeavesFewNeighboursTogether) {
  constexpr std::int64_t kSize = 10'000;
  const auto values = values_of(Permutation(kSize, 3, 0), kSize);
  int neighbours = 0;
  for (std::size_t i = 1; i < values.size(); ++i) neighbours += values[i] == values[i - 1] + 1 ? 1 : 0;
  EXPECT_LE(neighbours, 8);  // one is expected
}

TEST(Sampler, DrawsEverySequenceOncePerEpoch) {
  const Sampler sampler(13, 9);
  std::vector<std::int64_t> first_epoch;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> epoch_samples;
    for (std::int64_t i = 0; i < 13; ++i) epoch_samples.push_back(sampler.sample(13 * epoch + i));
    EXPECT_EQ(std::set<std::int64_t>(epoch_samples.begin(), epoch_samples.end()).size(), 13U);
    if (epoch == 0) first_epoch = epoch_samples;
    if (epoch > 0) {
      EXPECT_NE(epoch_samples, first_epoch);
    }
  }
}

TEST(Sampler, KeepsTheOrderOfTheDataWhereItDoesNotShuffle) {
  const Sampler sampler(5, 9, /*shuffled=*/false);
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < 12; ++i) samples.push_back(sampler.sample(i));
  EXPECT_EQ(samples, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
  EXPECT_NE(sampler.state(7), Sampler(5, 9).state(7));
}

TEST(Sampler, HasAStateOfAFewIntegers) {
  const Sampler sampler(10, 4);
  EXPECT_EQ(sampler.state(37), (SamplerState{.seed = 4, .sequences = 10, .epoch = 3, .position = 7}));
  EXPECT_NE(sampler.state(37), Sampler(11, 4).state(37));
}

}  // namespace
}  // namespace strata
