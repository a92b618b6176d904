#include "engine/tools/report/change_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Prediction prediction(double seconds, std::int64_t tokens, Change change = {}) {
  Prediction one = {.change = std::move(change), .tokens = tokens};
  one.step.seconds = seconds;
  one.peaks = {2 * MiB, 3 * MiB, 0};
  return one;
}

TEST(ChangeWords, GiveALineToTakeOverWithTheStepBeforeAndAfter) {
  const Prediction now = prediction(2, 1000);
  Prediction change = prediction(1, 1000, {.settings = {"memory.device=1GiB", "memory.host=2GiB"}});
  change.peaks[Tier::device] = 4 * MiB;
  EXPECT_EQ(change_text(change, &now, 2),
            "  2. --set memory.device=1GiB --set memory.host=2GiB\n"
            "     step: 2.000 s -> 1.000 s; 500 tokens/s -> 1000 tokens/s, 50.0 % less time per token\n"
            "     peaks: device 2.00 MiB -> 4.00 MiB, host 3.00 MiB\n"
            "     It changes no bit of the result.\n");
}

TEST(ChangeWords, SayHowManyTokensAStepHasIfTheyChange) {
  const Prediction now = prediction(2, 1000);
  const Prediction change =
      prediction(3, 2000, {.settings = {"train.batch=8"}, .effect = ChangeEffect::learning});
  EXPECT_THAT(change_text(change, &now, 1), HasSubstr("2.000 s for 1000 tokens -> 3.000 s for 2000 tokens"));
  EXPECT_THAT(change_text(change, &now, 1), HasSubstr("25.0 % less time per token"));
}

TEST(ChangeWords, SayNothingOfBeforeIfTheRunDoesNotFit) {
  const std::string text = change_text(prediction(1, 1000, {.settings = {"train.microbatch=1"}}), nullptr, 1);
  EXPECT_THAT(text, HasSubstr("step: 1.000 s; 1000 tokens/s\n"));
  EXPECT_THAT(text, Not(HasSubstr("->")));
}

TEST(ChangeWords, TellApartWhatAChangeDoesToResults) {
  const auto words = [](Change change) {
    return change_text(prediction(1, 1000, std::move(change)), nullptr, 1);
  };
  EXPECT_THAT(words({.settings = {"train.recompute=auto"}}), HasSubstr("no bit of the result."));
  EXPECT_THAT(words({.settings = {"train.microbatch=2"}, .effect = ChangeEffect::rounding}),
              HasSubstr("The mathematics stays, its rounding does not: "));
  EXPECT_THAT(words({.settings = {"optimizer.moments=bf16"}, .effect = ChangeEffect::learning}),
              HasSubstr("It changes what is learned: moments are rounded"));
  const std::string of_two = words(
      {.settings = {"optimizer.master=none", "optimizer.moments=bf16"}, .effect = ChangeEffect::learning});
  EXPECT_THAT(of_two, HasSubstr("It changes what is learned: there are no master weights"));
  EXPECT_THAT(of_two, HasSubstr("; moments are rounded"));
  EXPECT_THAT(words({.settings = {"optimizer.moments=8bit"}, .effect = ChangeEffect::learning}),
              HasSubstr("moments are kept in 8 bits"));
  EXPECT_THAT(words({.effect = ChangeEffect::machine, .link = 2}),
              HasSubstr("a machine whose link between host and device is 2 times as fast"));
  EXPECT_THAT(words({.effect = ChangeEffect::machine, .drive = 2}), HasSubstr("nvme_read_bytes_per_second"));
}

TEST(ChangeWords, WriteShortTimesWithDigitsEnough) {
  EXPECT_EQ(seconds_text(12.3456), "12.346 s");
  EXPECT_EQ(seconds_text(0.0341), "34.1 ms");
  EXPECT_EQ(seconds_text(0.0000341), "0.034 ms");
}

}  // namespace
}  // namespace strata
