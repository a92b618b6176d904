#include "offload/stripe_map.h"

#include <gtest/gtest.h>

#include <numeric>

#include "offload/store.h"

namespace strata {
namespace {

struct Layout {
  Bytes bytes;
  std::vector<double> weights;
};

std::vector<Layout> layouts() {
  return {{4096, {1}},          {5 * MiB + 4096, {1}},       {MiB, {1, 1}},
          {64 * MiB, {1, 1}},   {77 * MiB + 8192, {2, 1}},   {130 * MiB - 4096, {3e9, 1e9, 2.5e9}},
          {3 * MiB, {1, 1000}}, {200 * MiB, {1, 1, 1, 0.01}}};
}

TEST(StripeMap, CoversEachFileExactlyOnce) {
  for (const Layout& layout : layouts()) {
    const StripeMap map(layout.bytes, layout.weights);
    std::vector<Bytes> next(layout.weights.size());
    for (Bytes offset = 0; offset < layout.bytes;) {
      const StripePiece piece = map.piece(offset, layout.bytes);
      const auto file = static_cast<std::size_t>(piece.file);
      EXPECT_EQ(piece.file_offset, next[file]) << "each file is filled from front to back, without holes";
      EXPECT_LE(piece.length, kStoreBlock);
      next[file] += piece.length;
      offset += piece.length;
    }
    for (std::size_t file = 0; file < next.size(); ++file)
      EXPECT_EQ(map.file_bytes(static_cast<int>(file)), next[file]);
    EXPECT_EQ(std::accumulate(next.begin(), next.end(), Bytes{0}), layout.bytes);
  }
}

TEST(StripeMap, FindsAFilesNextPiece) {
  for (const Layout& layout : layouts()) {
    const StripeMap map(layout.bytes, layout.weights);
    for (int file = 0; file < map.files(); ++file) {
      Bytes sum = 0;
      for (Bytes offset = map.next_in(file, 0, layout.bytes); offset < layout.bytes;) {
        const StripePiece piece = map.piece(offset, layout.bytes);
        ASSERT_EQ(piece.file, file);
        sum += piece.length;
        offset = map.next_in(file, offset + piece.length, layout.bytes);
      }
      EXPECT_EQ(sum, map.file_bytes(file));
    }
  }
}

TEST(StripeMap, SharesByWeight) {
  const StripeMap map(640 * MiB, std::vector<double>{3e9, 1e9});
  EXPECT_EQ(map.file_bytes(0), 480 * MiB);
  EXPECT_EQ(map.file_bytes(1), 160 * MiB);
  EXPECT_DOUBLE_EQ(map.fraction(0), 0.75);
}

TEST(StripeMap, UsesAllFilesInAnyStretch) {
  const StripeMap map(640 * MiB, std::vector<double>{3e9, 1e9});
  constexpr Bytes kCycle = 4 * kStoreBlock;
  for (Bytes offset = 0; offset + kCycle <= map.bytes(); offset += kStoreBlock)
    EXPECT_LT(map.next_in(1, offset, offset + kCycle), offset + kCycle);
}

TEST(StripeMap, CutsAtBlocksAndAtTheEnd) {
  const StripeMap map(8 * MiB, std::vector<double>{1, 1});
  const StripePiece piece = map.piece(3 * MiB + 4096, 8 * MiB);
  EXPECT_EQ(piece.file, 1);
  EXPECT_EQ(piece.file_offset, 1 * MiB + 4096);
  EXPECT_EQ(piece.length, MiB - 4096);
  EXPECT_EQ(map.piece(3 * MiB, 3 * MiB + 8192).length, 8192);
}

}  // namespace
}  // namespace strata
