#include "offload/disk_share.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr Bytes kFullDepth = kDepthPerDisk * kStoreBlock;

TEST(DiskShare, GivesATransferThatIsAloneTheFullDepthInEitherDirection) {
  DiskShare share({.read = 7e9, .write = 2e9});
  share.join();
  EXPECT_GE(share.bytes_in_flight(Direction::read), kFullDepth);
  EXPECT_EQ(share.bytes_in_flight(Direction::write), kFullDepth);
}

TEST(DiskShare, KeepsReadsAndWritesTogetherWithinTheDisksTime) {
  const DiskSpeed speed = {.read = 7e9, .write = 2e9};
  const double budget_seconds = static_cast<double>(kFullDepth) / speed.write;
  DiskShare share(speed);
  for (int transfers = 2; transfers <= 4; ++transfers) {
    while (transfers > share.transfers()) share.join();
    const double seconds = static_cast<double>(share.bytes_in_flight(Direction::read)) / speed.read +
                           static_cast<double>(share.bytes_in_flight(Direction::write)) / speed.write;
    EXPECT_NEAR(seconds, 2 * budget_seconds / transfers, 1e-9) << "two of " << transfers << " transfers";
  }
}

TEST(DiskShare, GivesTheWholeBackWhenOthersLeave) {
  DiskShare share({});
  share.join();
  share.join();
  EXPECT_EQ(share.bytes_in_flight(Direction::read), kFullDepth / 2);
  share.leave();
  EXPECT_EQ(share.bytes_in_flight(Direction::read), kFullDepth);
}

TEST(DiskShare, LeavesNobodyWithoutABlock) {
  DiskShare share({});
  for (int i = 0; i < 10 * kDepthPerDisk; ++i) share.join();
  EXPECT_EQ(share.bytes_in_flight(Direction::write), kStoreBlock);
}

}  // namespace
}  // namespace strata
