#include "engine/device/cuda/attention_chunk.h"
#include "engine/device/attention_calls.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

AttentionShape shape(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads) {
  return {.batch = batch, .sequence = sequence, .heads = heads, .kv_heads = kv_heads, .head_dimension = 64};
}

TEST(AttentionChunk, IsTheWholeCallWhereItIsSmall) {
  EXPECT_EQ(backward_chunk(shape(4, 1024, 12, 12)), (AttentionChunk{4, 12, 1}));
  EXPECT_EQ(backward_chunk(shape(2, 65, 3, 1)), (AttentionChunk{2, 1, 3}));
}

TEST(AttentionChunk, TakesFewerSequencesAndThenFewerHeads) {
  EXPECT_EQ(backward_chunk(shape(64, 1024, 16, 16)), (AttentionChunk{32, 16, 1}));
  EXPECT_EQ(backward_chunk(shape(3, 4096, 32, 8)), (AttentionChunk{1, 8, 4}));
  EXPECT_EQ(backward_chunk(shape(1, 8192, 32, 32)), (AttentionChunk{1, 8, 1}));
}

TEST(AttentionChunk, IsOneKeyHeadAndThenSomeOfItsHeadsWhereTheyAreLarge) {
  EXPECT_EQ(backward_chunk(shape(1, 8192, 64, 8)), (AttentionChunk{1, 1, 8}));
  EXPECT_EQ(backward_chunk(shape(1, 12288, 32, 8)), (AttentionChunk{1, 1, 2}));
  EXPECT_EQ(backward_chunk(shape(2, 16384, 64, 8)), (AttentionChunk{1, 1, 2}));
  EXPECT_EQ(backward_chunk(shape(1, 32768, 32, 32)), (AttentionChunk{1, 1, 1}));
}

TEST(AttentionChunk, IsNoneWhereOneHeadIsTooLarge) {
  EXPECT_EQ(backward_chunk(shape(1, 32769, 32, 32)), std::nullopt);
}

TEST(AttentionChunk, CountsTheGradientsOfHeadsThatAreApart) {
  const AttentionShape group = shape(1, 12288, 32, 8);
  EXPECT_EQ(head_gradient_bytes(group, {1, 1, 4}), 0);
  EXPECT_EQ(head_gradient_bytes(group, {1, 1, 2}), 2 * 2 * 12288 * 64 * 4);
  EXPECT_EQ(cudnn_backward_bytes(group),
            cudnn_workspace_bytes(group, {1, 1, 2}) + head_gradient_bytes(group, {1, 1, 2}));
}

TEST(AttentionChunk, CoversEveryShapeInEqualParts) {
  for (const std::int64_t batch : {1, 3, 7, 8}) {
    for (const std::int64_t kv_heads : {1, 2, 5, 8}) {
      for (const std::int64_t sequence : {2, 500, 2048, 6000}) {
        const std::optional<AttentionChunk> chunk =
            backward_chunk(shape(batch, sequence, 2 * kv_heads, kv_heads));
        ASSERT_TRUE(chunk);
        EXPECT_EQ(batch % chunk->batch, 0);
        EXPECT_EQ(kv_heads % chunk->kv_heads, 0);
        EXPECT_TRUE(chunk->kv_heads == kv_heads || chunk->batch == 1);
      }
    }
  }
}

}  // namespace
}  // namespace strata
