// What stands for tokens where elements are dropped is the same for every layout of ranks and every resumed
// run.
#include "engine/input/data/row_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/context_part.h"
#include "base/dropout.h"
#include "engine/config/run_config.h"
#include "engine/input/data/training_data.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

constexpr std::int64_t kRowsOfSample = 24;

std::vector<std::int32_t> keys_of(std::int64_t first, std::int64_t samples, std::uint64_t seed = 1,
                                  const ContextPart& part = {}) {
  std::vector<std::int32_t> keys(static_cast<std::size_t>(samples * kRowsOfSample / part.ranks));
  RowKeys(seed).fill(first, samples, keys, part);
  return keys;
}

// Invariant (RowKeys.*): Dropout depends on the place in the run alone.
TEST(RowKeys, FollowFromTheSeedAndTheToken) {
  const std::vector<std::int32_t> keys = keys_of(0, 40);
  EXPECT_EQ(keys, keys_of(0, 40));
  EXPECT_NE(keys, keys_of(0, 40, 2));
  EXPECT_EQ(std::set<std::int32_t>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_GE(*std::ranges::min_element(keys), 0) << "kWithoutDropout is negative";
}

TEST(RowKeys, AreThoseOfAllTokensInAnyParts) {
  const std::vector<std::int32_t> keys = keys_of(0, 12);
  for (const std::int64_t samples : {1, 3, 4}) {
    for (std::int64_t first = 0; first < 12; first += samples)
      EXPECT_TRUE(
          std::ranges::equal(keys_of(first, samples),
                             std::span(keys).subspan(static_cast<std::size_t>(first * kRowsOfSample),
                                                     static_cast<std::size_t>(samples * kRowsOfSample))));
  }
  for (const std::int64_t ranks : {2, 3}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const ContextPart part = {ranks, rank};
      const std::vector<std::int32_t> own = keys_of(0, 12, 1, part);
      const std::int64_t rows = kRowsOfSample / ranks;
      for (std::int64_t i = 0; i < std::ssize(own); ++i)
        EXPECT_EQ(
            own[static_cast<std::size_t>(i)],
            keys[static_cast<std::size_t>(i / rows * kRowsOfSample + part.positions(rows).at(i % rows))]);
    }
  }
}

/// Without places in documents they are array 2, and with them array 3.
TEST(RowKeys, AreAmongTheDataOfTextAndSayThatAValidationDropsNothing) {
  const Corpus corpus;
  RunConfig config;
  config.data.path = {corpus.write("a.txt", std::string(2000, 'a'))};
  config.data.sequence_length = kRowsOfSample;
  config.train.batch = 4;
  config.train.microbatch = 2;
  config.train.seed = 9;
  for (const DataPacking packing : {DataPacking::none, DataPacking::documents}) {
    config.data.packing = packing;
    const BatchLoader loader(config, 256);
    const TrainingData data = training_data(loader);
    std::vector<std::int32_t> places(2 * kRowsOfSample), keys(2 * kRowsOfSample);
    MicrobatchData arrays;
    if (packing != DataPacking::none) arrays.set(2, std::as_writable_bytes(std::span(places)));
    arrays.set(packing == DataPacking::none ? 2 : 3, std::as_writable_bytes(std::span(keys)));
    data.training(3, 1, arrays);
    EXPECT_EQ(keys, keys_of(3 * 4 + 2, 2, 9));
    data.validation(0, 0, arrays);
    EXPECT_EQ(keys, std::vector<std::int32_t>(2 * kRowsOfSample, kWithoutDropout));
  }
}

}  // namespace
}  // namespace strata
