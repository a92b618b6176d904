#include "base/at_work.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(AtWork, IsAThreadWhileItDoesNotPause) {
  EXPECT_FALSE(AtWork::anyone());
  {
    const AtWork outer, inner;
    EXPECT_TRUE(AtWork::anyone());
    {
      const AtWork::Pause pause;
      EXPECT_FALSE(AtWork::anyone());
      const AtWork again;
      EXPECT_TRUE(AtWork::anyone());
    }
    EXPECT_TRUE(AtWork::anyone());
  }
  EXPECT_FALSE(AtWork::anyone());
}

}  // namespace
}  // namespace strata
