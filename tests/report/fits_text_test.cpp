// The line by which strata plan says that a run fits.
#include "engine/tools/report/fits_text.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

const TierPlan kDevice = {.tier = Tier::device, .budget = 45 * GiB / 2, .peak_bytes = 21 * GiB},
               kHost = {.tier = Tier::host, .budget = kUnlimited, .peak_bytes = 3 * GiB};

TEST(FitsText, HasEachTierAndTokensPerSecond) {
  EXPECT_EQ(fits_text({kDevice}, 4678.4, false),
            "fits     device 21.00 GiB of 22.50 GiB; at most 4,678 tokens/s\n");
  EXPECT_EQ(
      fits_text({kDevice, kHost}, 0.512, true),
      "fits     each rank takes device 21.00 GiB of 22.50 GiB, host 3.00 GiB without a limit; at most 0.51 "
      "tokens/s\n");
}

}  // namespace
}  // namespace strata
