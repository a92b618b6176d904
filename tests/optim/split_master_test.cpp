#include "optim/split_master.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "base/task_arena.h"
#include "base/topology.h"

namespace strata {
namespace {

/// Without branches, so that compilers make vector code of the loop around it.
bool is_right(std::uint32_t bits) {
  const SplitMaster halves = split_master(std::bit_cast<float>(bits));
  const float joined = join_master(halves.parameter, halves.remainder);
  // Nearest even by the bits; bfloat16's own constructor branches.
  const std::uint32_t nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16 & 0xffffU;
  const bool is_tie = (bits & 0xffffU) == 0x8000U;
  return (std::bit_cast<std::uint32_t>(joined) == bits) & (is_tie | (halves.parameter.bits == nearest));
}

// Invariant of state and checkpoints (SplitMaster*.*): The state's format is exact or reproducible. A split
// master equals the fp32 master to the bit. bf16 moments, and weights without a master, have the same bits
// wherever they are updated. A checkpoint of any format resumes in any other.
TEST(SplitMasterLongTest, JoinsToTheSameBitsForEveryFloatAndItsParameterIsTheNearestBf16) {
  constexpr std::uint32_t kLow = 1 << 16;
  std::atomic<std::uint64_t> wrong = 0;
  TaskArena(usable_cores()).for_each(1 << 16, [&](std::int64_t high, int) {
    std::uint32_t count = 0;
    for (std::uint32_t low = 0; low < kLow; ++low)
      count += is_right(static_cast<std::uint32_t>(high) << 16 | low) ? 0 : 1;
    wrong += count;
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(SplitMaster, RoundsTiesAwayFromZero) {
  const auto parameter = [](float value) { return static_cast<float>(split_master(value).parameter); };
  EXPECT_EQ(parameter(1 + 0x1p-8F), 1 + 0x1p-7F);  // to even: 1
  EXPECT_EQ(parameter(-1 - 0x1p-8F), -1 - 0x1p-7F);
  EXPECT_EQ(parameter(1 + 3 * 0x1p-8F), 1 + 4 * 0x1p-8F);
}

TEST(SplitMaster, InfinitiesAndTheUsualNaNKeepTheirMeaning) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(split_master(kInfinity).parameter), kInfinity);
  EXPECT_EQ(static_cast<float>(split_master(-kInfinity).parameter), -kInfinity);
  EXPECT_TRUE(
      std::isnan(static_cast<float>(split_master(std::numeric_limits<float>::quiet_NaN()).parameter)));
}

}  // namespace
}  // namespace strata
