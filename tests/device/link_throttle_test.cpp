#include "engine/device/cpu/link_throttle.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/base/virtual_time.h"

namespace strata {
namespace {

using Seconds = PacingClock::Seconds;
using test::VirtualTime;

std::vector<std::byte> numbered(Bytes bytes) {
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 256);
  return data;
}

TEST(LinkThrottle, CopiesEveryByteInTheTimeOfTheRate) {
  for (const Bytes bytes : {Bytes{1}, 1000 * KiB, 3 * MiB + 17}) {
    VirtualTime time;
    const std::vector<std::byte> from = numbered(bytes);
    std::vector<std::byte> to(from.size());
    LinkThrottle(1e6, time.clock()).copy(to.data(), from.data(), bytes);
    EXPECT_EQ(to, from);
    EXPECT_NEAR((time.time - Seconds(100)).count(), static_cast<double>(bytes) / 1e6, 1e-9);
  }
}

TEST(LinkThrottle, SleepsInPiecesThatLetTheDataTrickleIn) {
  VirtualTime time;
  const std::vector<std::byte> from = numbered(8 * MiB);
  std::vector<std::byte> to(from.size());
  LinkThrottle(1e6, time.clock()).copy(to.data(), from.data(), 8 * MiB);
  EXPECT_LT(time.longest_sleep.count(), 2.0);
}

TEST(LinkThrottle, IsNotFooledByASleepThatEndsEarly) {
  VirtualTime time;
  time.wakes_early = true;
  const std::vector<std::byte> from = numbered(2 * MiB);
  std::vector<std::byte> to(from.size());
  LinkThrottle(1e6, time.clock()).copy(to.data(), from.data(), 2 * MiB);
  EXPECT_GE((time.time - Seconds(100)).count(), static_cast<double>(2 * MiB) / 1e6);
}

TEST(LinkThrottle, WithoutARateNeverSleeps) {
  VirtualTime time;
  const std::vector<std::byte> from = numbered(2 * MiB);
  std::vector<std::byte> to(from.size());
  LinkThrottle(std::nullopt, time.clock()).copy(to.data(), from.data(), 2 * MiB);
  EXPECT_EQ(to, from);
  EXPECT_EQ(time.time, Seconds(100));
}

TEST(LinkThrottle, OnTheRealClockTakesAtLeastItsTime) {
  const std::vector<std::byte> from = numbered(4 * KiB);
  std::vector<std::byte> to(from.size());
  const auto start = std::chrono::steady_clock::now();
  LinkThrottle(1e6).copy(to.data(), from.data(), 4 * KiB);
  EXPECT_GE(Seconds(std::chrono::steady_clock::now() - start).count(), 4096 / 1e6);
}

}  // namespace
}  // namespace strata
