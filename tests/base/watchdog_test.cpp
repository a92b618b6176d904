// What hangs is told of, what advances is not.
#include "base/watchdog.h"

#include <gmock/gmock.h>

#include <future>

namespace strata {
namespace {

using ::testing::HasSubstr;

std::string hang_after(double seconds) {
  return find_hang(seconds, 10).value_or("");
}

// Invariant (FindHang.*): Nothing waits forever and nothing at work is ended.
TEST(FindHang, TellsOfAWaitThatHasNotAdvancedForTheLimit) {
  const WatchedWait wait([] { return std::string("writing x"); });
  EXPECT_EQ(hang_after(9), "");
  EXPECT_THAT(hang_after(1), HasSubstr("writing x has not advanced for 10 s"));
  EXPECT_EQ(hang_after(9), "") << "it was told of";
}

TEST(FindHang, SaysNothingOfAWaitHoweverLongThatAdvances) {
  WatchedWait wait([] { return std::string("writing x"); });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(hang_after(9), "");
    wait.advance();
  }
}

TEST(FindHang, SaysNothingOfAWaitThatIsOver) {
  {
    const WatchedWait first([] { return std::string("writing x"); });
    const WatchedWait second([] { return std::string("writing y"); });
  }
  EXPECT_EQ(hang_after(100), "");
}

TEST(FindHang, TellsOfTheInnerOfTwoWaits) {
  const WatchedWait outer([] { return std::string("making folders"); });
  const WatchedWait inner([] { return std::string("syncing x"); });
  EXPECT_THAT(hang_after(10), HasSubstr("syncing x"));
}

TEST(FindHang, TellsOfTheOneThatHangsAmongManyThatAdvance) {
  WatchedWait before([] { return std::string("reading x"); });
  const WatchedWait hanging([] { return std::string("writing y"); });
  WatchedWait after([] { return std::string("reading z"); });
  EXPECT_EQ(hang_after(6), "");
  before.advance();
  after.advance();
  EXPECT_THAT(hang_after(6), HasSubstr("writing y"));
}

TEST(WaitsUnderWay, AreTheNewestFirstWithTheTimeSinceTheyAdvanced) {
  EXPECT_TRUE(waits_under_way().empty());
  const WatchedWait writing([] { return std::string("writing x"); });
  EXPECT_EQ(hang_after(4), "");
  WatchedWait reading([] { return std::string("reading y"); });
  EXPECT_EQ(hang_after(3), "");
  const std::vector<WaitUnderWay> waits = waits_under_way();
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].what, "reading y");
  EXPECT_EQ(waits[0].seconds, 3);
  EXPECT_EQ(waits[1].what, "writing x");
  EXPECT_EQ(waits[1].seconds, 7);
  reading.advance();
  EXPECT_EQ(waits_under_way()[0].seconds, 0);
}

TEST(WatchdogThread, CallsForAHang) {
  std::promise<std::string> said;
  const Watchdog watchdog(0.02, [&, told = false](const std::string& hang) mutable {
    if (!std::exchange(told, true)) said.set_value(hang);
  });
  const WatchedWait wait([] { return std::string("writing x"); });
  EXPECT_THAT(said.get_future().get(), HasSubstr("writing x has not advanced for 0.02 s"));
}

}  // namespace
}  // namespace strata
