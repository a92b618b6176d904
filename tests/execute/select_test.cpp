// Who ends at a rung.
#include "engine/run/execute/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Losses = std::vector<std::optional<double>>;

std::vector<bool> goes_on(double keep, const Losses& losses) {
  std::vector<bool> goes_on;
  for (const std::string& why : outdone({.rung_steps = {4}, .keep = keep}, 4, losses))
    goes_on.push_back(why.empty());
  return goes_on;
}

TEST(Rung, KeepsThePartThatIsBestRoundedUp) {
  EXPECT_THAT(goes_on(0.5, {3, 1, 2, 4}), ElementsAre(false, true, true, false));
  EXPECT_THAT(goes_on(0.5, {3, 1, 2}), ElementsAre(false, true, true));
  EXPECT_THAT(goes_on(1, {3, 1, 2}), ElementsAre(true, true, true));
  EXPECT_THAT(goes_on(0.01, {3, 1, 2}), ElementsAre(false, true, false));
}

TEST(Rung, KeepsNoneMoreForARoundingError) {
  // 0.07 * 100 is a little more than 7.
  const std::vector<bool> kept = goes_on(0.07, Losses(100, 1.0));
  EXPECT_EQ(std::ranges::count(kept, true), 7);
}

TEST(Rung, KeepsTheFirstOfEqualsAndAFiniteLossBeforeAnyOther) {
  EXPECT_THAT(goes_on(0.5, {2, 2, 2, 2}), ElementsAre(true, true, false, false));
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(goes_on(0.5, {nan, -infinity, 1e300, 9}), ElementsAre(false, false, true, true));
}

TEST(Rung, LeavesOutThoseThatTakeNoPart) {
  EXPECT_THAT(goes_on(0.5, {std::nullopt, 5, std::nullopt, 4}), ElementsAre(true, false, true, true));
  EXPECT_THAT(goes_on(0.5, {std::nullopt}), ElementsAre(true));
}

/// So an error of a drive ends no model that would have gone on beside it.
TEST(Rung, CountsThoseThatCouldNotBeSavedAsItsLast) {
  const auto endings = [](const Losses& losses, std::size_t failed) {
    return outdone({.rung_steps = {4}, .keep = 0.5}, 4, losses, failed);
  };
  EXPECT_THAT(endings({3, std::nullopt, 2, std::nullopt}, 2), ElementsAre("", "", "", ""));
  EXPECT_THAT(endings({3, std::nullopt, 2, 1}, 1), ElementsAre(HasSubstr("3 of 4 at step 4"), "", "", ""));
  EXPECT_THAT(endings({3, std::nullopt, 2, std::nullopt}, 0),
              ElementsAre(HasSubstr("2 of 2 at step 4"), "", "", ""));
}

TEST(Rung, SaysThePlaceAndTheLoss) {
  EXPECT_THAT(outdone({.rung_steps = {}, .by = SelectBy::training}, 4, {2.5, 1}),
              ElementsAre(AllOf(HasSubstr("2 of 2 at step 4"), HasSubstr("training loss of 2.5000")), ""));
  EXPECT_THAT(outdone({.rung_steps = {}, .by = SelectBy::validation}, 4, {1, 2}).back(),
              HasSubstr("validation loss of 2.0000"));
}

}  // namespace
}  // namespace strata
