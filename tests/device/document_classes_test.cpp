#include "engine/device/cuda/document_classes.h"
#include "engine/device/attention_calls.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace strata {
namespace {

const std::int64_t kSequences[] = {65, 100, 128, 129, 200, 257, 300, 500, 640, 1024, 4096, 5000, 32768};

// Invariant (DocumentClasses.*): Documents in one sequence are independent.
TEST(DocumentClasses, AreOfHalfTheLengthEach) {
  const std::vector<DocumentClass> expected = {{1024, 512, 1}, {512, 256, 3}, {256, 128, 7}, {128, 64, 15}};
  EXPECT_EQ(document_classes(1024), expected);
  EXPECT_EQ(document_classes(70), (std::vector<DocumentClass>{{128, 64, 1}}));
}

TEST(DocumentClasses, AreNoneWhereAllDocumentsAreShort) {
  EXPECT_EQ(document_classes(1), std::vector<DocumentClass>());
  EXPECT_EQ(document_classes(kShortDocument), std::vector<DocumentClass>());
}

TEST(DocumentClasses, HaveEveryLengthThatIsNotShortOnce) {
  for (const std::int64_t sequence : kSequences) {
    SCOPED_TRACE(sequence);
    const std::vector<DocumentClass> classes = document_classes(sequence);
    EXPECT_GE(classes.front().length, sequence);
    EXPECT_EQ(classes.back().below, kShortDocument);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      EXPECT_EQ(classes[i].length % kSlotUnit, 0);
      EXPECT_LT(classes[i].below, sequence) << "a class without documents";
      if (i > 0) {
        EXPECT_EQ(classes[i].length, classes[i - 1].below);
      }
    }
  }
}

TEST(DocumentClasses, HaveASlotForEachDocumentOfAnySequence) {
  std::mt19937 random(1);
  for (const std::int64_t sequence : kSequences) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::set<std::pair<std::int64_t, std::int64_t>> taken;  // class, slot
      // Also documents of just the shortest length of a class, which are the most.
      const std::vector<DocumentClass> classes = document_classes(sequence);
      const std::int64_t most =
          repeat < std::ssize(classes) ? classes[static_cast<std::size_t>(repeat)].below + 1 : 0;
      for (std::int64_t first = 0, length = 0; first < sequence; first += length) {
        length = most > 0
                     ? most
                     : std::uniform_int_distribution<std::int64_t>(1, 1 + sequence / (1 + repeat))(random);
        length = std::min(length, sequence - first);
        for (const DocumentClass& documents : classes) {
          if (length <= documents.below || length > documents.length) continue;
          const std::int64_t slot = documents.slot_of(first);
          EXPECT_LT(slot, documents.slots);
          EXPECT_TRUE(taken.emplace(documents.length, slot).second)
              << "two documents of class " << documents.length << " in slot " << slot;
        }
      }
    }
  }
}

TEST(DocumentClasses, TakeLessThanTwiceASequence) {
  for (const std::int64_t sequence : kSequences) {
    const std::int64_t whole = align_up(sequence, kSlotUnit);
    EXPECT_LT(most_slot_tokens(sequence), 2 * whole);
    for (const DocumentClass& documents : document_classes(sequence))
      EXPECT_LE(documents.slots * documents.length * documents.length, whole * whole);
  }
}

TEST(DocumentClasses, ArePartsOfWhatCudnnComputes) {
  AttentionShape shape = {.batch = 3, .sequence = 4096, .heads = 32, .kv_heads = 8, .head_dimension = 128};
  EXPECT_EQ(document_chunk(shape), backward_chunk(shape));
  shape.soft_cap = 30;
  EXPECT_EQ(document_chunk(shape), std::nullopt);
  shape.soft_cap = 0;
  shape.context = {2, 0};
  EXPECT_EQ(document_chunk(shape), std::nullopt);
  shape.context = {};
  shape.sequence = 64;
  EXPECT_EQ(document_chunk(shape), std::nullopt);
}

}  // namespace
}  // namespace strata
