#include "engine/tools/report/live_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace strata {
namespace {

using ::testing::EndsWith;
using ::testing::ExitedWithCode;

/// A failing lane says why while others go on, whose checkpoints and warnings are still said.
TEST(LiveBlocks, LeaveTheLastWordsOfACommandWhereTheyAre) {
  EXPECT_EXIT(
      {
        LiveBlock block;
        block.draw({"one", "two", "three"});
        end_live_output();
        std::fputs("strata: failed\n", stderr);
        block.say("saved");
        block.draw({"one"});
        block.say_progress("step 6/6");
        block.finish();
        std::exit(0);
      },
      ExitedWithCode(0), EndsWith("strata: failed\nsaved\n"));
}

}  // namespace
}  // namespace strata
