// Random numbers by vector code have the bits of those one at a time.
#include "base/normals.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "tests/support/highway_target.h"

namespace strata {
namespace {

/// Begins numbers around it that are so near to halfway between two floats that scalar code has to make
/// them, for seed 7 and stream 3.
constexpr std::uint64_t kNearATie[] = {1416334, 2866917, 2944821, 3054013, 3494803, 5798948};

void expect_numbers_of(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count) {
  constexpr float kScale = 0.02F;
  const CounterRandom random(seed, stream);
  std::vector<float> numbers(count, -1.0F);
  scaled_normals(seed, stream, first, kScale, numbers);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(numbers[i], kScale * random.normal(first + i)) << seed << ' ' << stream << ' ' << first + i;
}

// Invariant (ScaledNormals.*): A run begins with the same bits.
TEST(ScaledNormals, HaveTheBitsOfEachAloneOnEveryVectorTarget) {
  for (const std::int64_t target : highway_targets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const OnHighwayTarget on(target);
    for (std::size_t count = 0; count < 40; ++count) expect_numbers_of(7, 3, 5, count);
    for (const std::uint64_t tie : kNearATie) {
      for (std::uint64_t before = 0; before < 20; ++before) expect_numbers_of(7, 3, tie - before, 33);
    }
    expect_numbers_of(0x123456789abcdef0, 0xfedcba9876543210, (std::uint64_t{1} << 32) - 1001, 100'000);
    expect_numbers_of(~0ULL, ~0ULL, ~0ULL - 50, 101);
  }
}

}  // namespace
}  // namespace strata
