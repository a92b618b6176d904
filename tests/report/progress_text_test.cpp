// Texts that a model wrote, as a user sees them: a terminal finds nothing in them to obey.
#include "engine/tools/report/progress_text.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using ::testing::ElementsAre;

TEST(Quoted, TextsAreOnOneLineWithoutCommands) {
  EXPECT_EQ(quoted("a \"b\"\n\tc"), R"("a \"b\"\n\tc")");
  EXPECT_EQ(quoted("\x1b[2J"), R"("\u001b[2J")");
  EXPECT_EQ(quoted("\x7f"), R"("?")");
  EXPECT_EQ(quoted("\xC2\x9B"
                   "2J"),
            R"("?2J")");
  EXPECT_EQ(quoted("\xC2\xA0\xC3\x9B\xE2\x80\x9C"), "\"\xC2\xA0\xC3\x9B\xE2\x80\x9C\"");
  EXPECT_EQ(quoted("\xFF"), "\"\xEF\xBF\xBD\"");
}

TEST(Samples, AreALineEachWithTheBeginningOfTheirPrompt) {
  const SamplePoint point = {.step = 20,
                             .seconds = 1,
                             .samples = {{"Once", " upon\na time", {1, 2}}, {std::string(100, 'x'), "", {}}}};
  EXPECT_THAT(lines_of(point), ElementsAre(R"(step 20: "Once" " upon\na time")",
                                           "step 20: \"" + std::string(46, 'x') + "… \"\""));
}

TEST(Samples, SayHowFarTheyAre) {
  EXPECT_EQ(line_of(SamplingProgress{.step = 20, .tokens = 12, .samples = 4, .ended = 1}),
            "step 20: samples, 12 tokens each so far, 1 of 4 ended");
}

}  // namespace
}  // namespace strata
