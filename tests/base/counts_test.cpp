// Numbers of things, as people read them.
#include "base/counts.h"

#include <gtest/gtest.h>

#include <limits>

namespace strata {
namespace {

TEST(Counts, AreGroupedByThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(11714827), "11,714,827");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Counts, AreRoundedToThreeDigits) {
  EXPECT_EQ(rounded_count(1304), "1,304");
  EXPECT_EQ(rounded_count(999'499), "999,499");
  EXPECT_EQ(rounded_count(999'999), "1.00 million");
  EXPECT_EQ(rounded_count(3'344'640), "3.34 million");
  EXPECT_EQ(rounded_count(596'049'920), "596 million");
  EXPECT_EQ(rounded_count(8'030'261'248), "8.03 billion");
  EXPECT_EQ(rounded_count(70'553'706'496), "70.6 billion");
}

}  // namespace
}  // namespace strata
