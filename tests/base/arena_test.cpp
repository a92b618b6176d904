#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/arena.h"
#include "base/dirty_memory.h"
#include "base/error.h"

namespace strata {
namespace {

TEST(Arena, IsMemoryOfItsSize) {
  const Arena arena(3 * MiB + 5);
  ASSERT_NE(arena.data(), nullptr);
  EXPECT_EQ(arena.size(), 3 * MiB + 5);
  for (const Bytes offset : {Bytes{0}, 1 * MiB, 3 * MiB + 4}) {
    arena.data()[offset] = std::byte{7};
    EXPECT_EQ(arena.data()[offset], std::byte{7});
  }
}

TEST(Arena, IsFullOfDirtInTests) {
  for (const Bytes bytes : {Bytes{5}, 5 * MiB + 3}) {
    const Arena arena(bytes);
    EXPECT_EQ(std::count(arena.data(), arena.data() + bytes, kDirt), bytes);
  }
}

TEST(Arena, StartsAtTheAlignmentOfBuffers) {
  for (const Bytes bytes : {Bytes{1}, 64 * KiB, 2 * MiB, 5 * MiB}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Arena(bytes).data()) % kAlignment, 0U) << bytes;
  }
}

TEST(Arena, CountsOnlyPagesThatWereTouched) {
  const DirtyMemory untouched(false);
  const Arena arena(64 * MiB);
  EXPECT_EQ(arena.resident_bytes(), 0);
  arena.data()[10 * MiB] = std::byte{1};
  const Bytes page = sysconf(_SC_PAGESIZE);
  EXPECT_GE(arena.resident_bytes(), page);
  EXPECT_LE(arena.resident_bytes(), 2 * MiB) << "at most one huge page";
  for (Bytes offset = 0; offset < arena.size(); offset += page) arena.data()[offset] = std::byte{1};
  EXPECT_EQ(arena.resident_bytes(), arena.size());
}

TEST(Arena, ResidentBytesNeverExceedAnOddSize) {
  const Arena arena(4097);
  arena.data()[0] = std::byte{1};
  arena.data()[4096] = std::byte{1};
  EXPECT_EQ(arena.resident_bytes(), 4097);
}

TEST(Arena, LargerThanMemoryCostsNothingUntilTouched) {
  const DirtyMemory untouched(false);
  const Arena arena(256 * GiB);  // the thread sanitizer leaves no room for much more
  arena.data()[arena.size() - 1] = std::byte{1};
  EXPECT_EQ(arena.data()[arena.size() - 1], std::byte{1});
}

TEST(Arena, OfNoBytesHasNoMemory) {
  const Arena arena(0);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(arena.resident_bytes(), 0);
}

TEST(Arena, MovesItsMemory) {
  Arena first(8 * KiB);
  std::byte* const data = first.data();
  Arena second(std::move(first));
  EXPECT_EQ(second.data(), data);
  Arena third(4 * KiB);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 8 * KiB);
}

TEST(Arena, ThatTheMachineCannotMapIsADeviceError) {
  try {
    const Arena arena(Bytes{1} << 60);
    FAIL() << "mapped 2^60 bytes";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976 bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace strata
