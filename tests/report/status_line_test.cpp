// What a long command is doing, said where no terminal is.
#include "engine/tools/report/status_line.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

namespace strata {
namespace {

using ::testing::MatchesRegex;

std::string said(double seconds_between, const std::string& words) {
  ::testing::internal::CaptureStderr();
  {
    StatusLine line(seconds_between);
    if (!words.empty()) line.show(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(StatusLine, IsSaidAgainWhileNothingNewHappens) {
  EXPECT_THAT(said(0.02, "planning the run"),
              MatchesRegex("0s  planning the run\n(0s  planning the run\n)+"));
}

TEST(StatusLine, OfAShortCommandIsNotSaid) {
  EXPECT_EQ(said(30, "planning the run"), "");
  EXPECT_EQ(said(0.02, ""), "");
}

}  // namespace
}  // namespace strata
