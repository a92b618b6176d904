#include "collectives/sent_bytes.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(SentBytes, OfALargeSumAreThoseOfReducingAndGatheringEqualParts) {
  constexpr std::size_t kCount = 1'200'000;
  for (const std::size_t ranks : {2, 3, 4, 8})
    EXPECT_EQ(sent_in_sum(kCount, 4, ranks), 2 * (ranks - 1) * (kCount / ranks) * 4);
}

TEST(SentBytes, OfASmallSumGoWholeToEveryOtherRank) {
  EXPECT_EQ(sent_in_sum(0, 8, 4), 0U);
  EXPECT_EQ(sent_in_sum(1, 8, 4), 3U * 8);
  EXPECT_EQ(sent_in_sum(2, 8, 3), 2U * 16);
}

TEST(SentBytes, OfASumThatRanksDoNotDivideAreTheSameOnAll) {
  constexpr std::size_t kCount = 1'200'002;
  EXPECT_EQ(sent_in_sum(kCount, 2, 3), 2 * 2 * 800'000U + 2 * 2 * 2U);
}

TEST(SentBytes, AreNoneWhereARankIsAlone) {
  EXPECT_EQ(sent_in_parts(1000, 1), 0U);
  for (const std::size_t count : {1, 1'000'000}) EXPECT_EQ(sent_in_sum(count, 4, 1), 0U);
}

TEST(SharedSum, HasPartsAndARestThatTogetherAreAll) {
  for (const std::size_t count : {0, 1, 7, 1001, 150'001, 1 << 20}) {
    for (const std::size_t ranks : {1, 2, 3, 8}) {
      const SharedSum sum = SharedSum::of(count, 4, ranks);
      EXPECT_EQ(ranks * sum.part + sum.rest, count);
    }
  }
}

}  // namespace
}  // namespace strata
