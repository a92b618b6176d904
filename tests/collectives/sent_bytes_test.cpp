#include "collectives/sent_bytes.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(SentBytes, OfALargeSumAreThoseOfReducingAndGatheringEqualParts) {
  constexpr int kCount = 1'200'000;
  for (const int ranks : {2, 3, 4, 8})
    EXPECT_EQ(sent_in_sum(kCount, 4, ranks), 2 * (ranks - 1) * (kCount / ranks) * 4);
}

TEST(SentBytes, OfASmallSumGoWholeToEveryOtherRank) {
  EXPECT_EQ(sent_in_sum(0, 8, 4), 0);
  EXPECT_EQ(sent_in_sum(1, 8, 4), 3 * 8);
  EXPECT_EQ(sent_in_sum(2, 8, 3), 2 * 16);
}

TEST(SentBytes, OfASumThatRanksDoNotDivideAreTheSameOnAll) {
  EXPECT_EQ(sent_in_sum(1'200'002, 2, 3), 2 * 2 * 800'000 + 2 * 2 * 2);
}

TEST(SentBytes, AreNoneWhereARankIsAlone) {
  EXPECT_EQ(sent_in_parts(1000, 1), 0);
  for (const int count : {1, 1'000'000}) EXPECT_EQ(sent_in_sum(count, 4, 1), 0);
}

TEST(SharedSum, HasPartsAndARestThatTogetherAreAll) {
  for (const int count : {0, 1, 7, 1001, 150'001, 1 << 20}) {
    for (const int ranks : {1, 2, 3, 8}) {
      const SharedSum<int> sum = share_sum(count, 4, ranks);
      EXPECT_EQ(ranks * sum.part + sum.rest, count);
    }
  }
}

}  // namespace
}  // namespace strata
