// Lists of documents against plain loops over the tokens, and rows that go into slots and back.
#include "engine/device/cuda/document_slots.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/config/choices.h"
#include "tests/cuda_emulation/emulated_kernels.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/device/scenario.h"

namespace strata {
namespace {

/// Lengths of the documents of each sequence.
using Sequences = std::vector<std::vector<int>>;

std::vector<std::int32_t> places_of(const Sequences& sequences) {
  std::vector<std::int32_t> places;
  for (const std::vector<int>& documents : sequences) {
    for (const int length : documents) {
      for (int place = 0; place < length; ++place) places.push_back(place);
    }
  }
  return places;
}

/// Lists in the host's memory, where emulated kernels reach them; full of what was there before.
struct Lists {
  explicit Lists(std::int64_t sequences, std::int64_t sequence)
      : short_places(static_cast<std::size_t>(sequences * sequence), 77) {
    const std::vector<DocumentClass> classes = document_classes(sequence);
    numbers.resize(2 * classes.size());
    for (const DocumentClass& documents : classes) {
      const auto slots = static_cast<std::size_t>(sequences * documents.slots);
      std::vector<std::int32_t>&lengths = numbers[2 * view.count], &first_rows = numbers[2 * view.count + 1];
      lengths.assign(slots, 77);
      first_rows.assign(slots, 77);
      view.classes.at(view.count++) = {documents, lengths.data(), first_rows.data()};
    }
    view.short_places = short_places.data();
  }
  std::vector<std::vector<std::int32_t>> numbers;
  std::vector<std::int32_t> short_places;
  DocumentLists view;
};

Lists list_documents(const Sequences& sequences, std::int64_t sequence) {
  const std::vector<std::int32_t> places = places_of(sequences);
  EXPECT_EQ(std::ssize(places), std::ssize(sequences) * sequence);
  Lists lists(std::ssize(sequences), sequence);
  EmulatedScratch scratch;
  list_documents_on_cuda({nullptr, scratch}, places, sequence, lists.view);
  return lists;
}

/// The same by one loop over the documents.
Lists expected_lists(const Sequences& sequences, std::int64_t sequence) {
  Lists lists(std::ssize(sequences), sequence);
  for (std::size_t c = 0; c < lists.view.count; ++c) {
    std::ranges::fill(lists.numbers[2 * c], 1);
    std::ranges::fill(lists.numbers[2 * c + 1], kEmptySlot);
  }
  std::int64_t row = 0;
  for (std::int64_t number = 0; number < std::ssize(sequences); ++number) {
    for (const int length : sequences[static_cast<std::size_t>(number)]) {
      const bool is_short = length <= kShortDocument;
      for (int place = 0; place < length; ++place)
        lists.short_places[static_cast<std::size_t>(row + place)] = is_short ? place : kNoPlace;
      for (std::size_t c = 0; c < lists.view.count; ++c) {
        const DocumentClass& documents = lists.view.classes.at(c).documents;
        if (length <= documents.below || length > documents.length) continue;
        const auto slot =
            static_cast<std::size_t>(number * documents.slots + documents.slot_of(row - number * sequence));
        EXPECT_EQ(lists.numbers[2 * c + 1].at(slot), kEmptySlot) << "two documents in one slot";
        lists.numbers[2 * c].at(slot) = length;
        lists.numbers[2 * c + 1].at(slot) = static_cast<std::int32_t>(row);
      }
      row += length;
    }
  }
  return lists;
}

/// Documents of lengths up to `most` that fill a sequence.
std::vector<int> random_documents(std::mt19937& random, int sequence, int most) {
  std::vector<int> documents;
  for (int left = sequence; left > 0; left -= documents.back())
    documents.push_back(std::min(left, std::uniform_int_distribution<int>(1, most)(random)));
  return documents;
}

void expect_listed(const Sequences& sequences, std::int64_t sequence) {
  const Lists expected = expected_lists(sequences, sequence);
  for (const auto order : {cuda_emulation::Order::forward, cuda_emulation::Order::backward}) {
    cuda_emulation::set_order(order);
    const Lists lists = list_documents(sequences, sequence);
    EXPECT_EQ(lists.numbers, expected.numbers);
    EXPECT_EQ(lists.short_places, expected.short_places);
  }
  cuda_emulation::set_order(cuda_emulation::Order::forward);
}

// Invariant (DocumentSlots.*): Documents in one sequence are independent.
TEST(DocumentSlots, ListDocumentsOfEveryLength) {
  for (const int sequence : {65, 128, 129, 300, 1300}) {
    SCOPED_TRACE(sequence);
    const std::vector<int> whole = {sequence}, tokens(static_cast<std::size_t>(sequence), 1);
    expect_listed({whole}, sequence);
    expect_listed({tokens}, sequence);
    expect_listed({{1, sequence - 1}}, sequence);
    expect_listed({{sequence - 1, 1}}, sequence);
    expect_listed({{64, sequence - 64}}, sequence);
    expect_listed({tokens, whole, {sequence - 1, 1}, tokens, whole}, sequence);
  }
}

TEST(DocumentSlots, ListDocumentsOfTheShortestAndTheLongestOfEachClass) {
  constexpr int kSequence = 1100;
  for (const DocumentClass& documents : document_classes(kSequence)) {
    for (const std::int64_t length : {documents.below, documents.below + 1, documents.length}) {
      SCOPED_TRACE(length);
      std::vector<int> sequence;
      for (int left = kSequence; left > 0; left -= sequence.back())
        sequence.push_back(std::min(left, static_cast<int>(length)));
      expect_listed({sequence, std::vector<int>(sequence.rbegin(), sequence.rend())}, kSequence);
    }
  }
}

TEST(DocumentSlots, ListRandomDocuments) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const int sequence = std::uniform_int_distribution<int>(65, 900)(random);
    Sequences sequences;
    for (int i = 0; i < 3; ++i)
      sequences.push_back(random_documents(random, sequence, 1 + sequence / (1 + repeat % 9)));
    expect_listed(sequences, sequence);
  }
}

/// Random rows, and slots for them that are full of `before`.
struct Moved {
  Moved(const Lists& lists, std::size_t number, DType dtype, std::int64_t rows, std::int64_t columns)
      : list(lists.view.classes.at(number)),
        slots(static_cast<std::int64_t>(lists.numbers[2 * number].size())),
        call(random_operand(number + 1, dtype, rows, columns, 8)),
        moved(dtype, slots * list.documents.length, columns) {
    for (std::int64_t row = 0; row < moved.rows(); ++row) {
      for (std::int64_t column = 0; column < columns; ++column) moved.set(row, column, kBefore);
    }
  }
  static constexpr float kBefore = 5;
  SlotList list;
  std::int64_t slots;
  OperandMemory call, moved;
};

TEST(DocumentSlots, TakeDocumentsWithZerosBehindThem) {
  constexpr std::int64_t kSequence = 300;
  const Lists lists = list_documents({{300}, {129, 1, 70, 100}, {65, 64, 66, 105}}, kSequence);
  EmulatedScratch scratch;
  for (std::size_t c = 0; c < lists.view.count; ++c) {
    Moved wide(lists, c, DType::bf16, 3 * kSequence, 40), narrow(lists, c, DType::fp32, 3 * kSequence, 4);
    const SlotOperand operands[] = {{wide.call.view(), wide.moved.view()},
                                    {narrow.call.view(), narrow.moved.view()}};
    move_into_slots_on_cuda({nullptr, scratch}, wide.list, operands);
    for (Moved* each : {&wide, &narrow}) {
      for (std::int64_t slot = 0; slot < each->slots; ++slot) {
        const std::int32_t first = each->list.first_rows[slot], length = each->list.lengths[slot];
        for (std::int64_t token = 0; token < each->list.documents.length; ++token) {
          for (std::int64_t column = 0; column < each->call.columns(); ++column) {
            const float value = each->moved.at(slot * each->list.documents.length + token, column);
            if (first == kEmptySlot || token >= align_up(length, kSlotUnit)) {
              ASSERT_EQ(value, Moved::kBefore);
            } else {
              ASSERT_EQ(value, token < length ? each->call.at(first + token, column) : 0);
            }
          }
        }
      }
    }
  }
}

TEST(DocumentSlots, GiveBackTheRowsOfTheirDocumentsAlone) {
  constexpr std::int64_t kSequence = 300;
  const Lists lists = list_documents({{129, 1, 70, 100}, {300}, {65, 64, 66, 105}}, kSequence);
  OperandMemory collected = poisoned_operand(DType::bf16, 3 * kSequence, 24, 8);
  EmulatedScratch scratch;
  for (std::size_t c = 0; c < lists.view.count; ++c) {
    Moved moved(lists, c, DType::bf16, 3 * kSequence, 24);
    // What is there besides documents' rows is not taken back.
    const SlotOperand into = {moved.call.view(), moved.moved.view()};
    move_into_slots_on_cuda({nullptr, scratch}, moved.list, {&into, 1});
    const SlotOperand from = {collected.view(), moved.moved.view()};
    move_from_slots_on_cuda({nullptr, scratch}, moved.list, {&from, 1});
    for (std::int64_t slot = 0; slot < moved.slots; ++slot) {
      const std::int32_t first = moved.list.first_rows[slot];
      if (first == kEmptySlot) continue;
      for (std::int64_t row = first; row < first + moved.list.lengths[slot]; ++row) {
        for (std::int64_t column = 0; column < 24; ++column) {
          ASSERT_EQ(collected.at(row, column), moved.call.at(row, column));
          collected.set(row, column, kNaN);
        }
      }
    }
  }
  for (const float value : collected.values()) ASSERT_NE(value, value);
  EXPECT_TRUE(collected.padding_is_untouched());
}

TEST(DocumentSlots, TakeAndGiveBackStatisticsOfHeads) {
  constexpr std::int64_t kSequence = 300, kHeads = 3;
  const Lists lists = list_documents({{129, 1, 70, 100}, {300}}, kSequence);
  OperandMemory statistics = random_operand(1, DType::fp32, 2 * kHeads, kSequence, 1);
  OperandMemory collected = poisoned_operand(DType::fp32, 2 * kHeads, kSequence, 1);
  EmulatedScratch scratch;
  for (std::size_t c = 0; c < lists.view.count; ++c) {
    const SlotList& list = lists.view.classes.at(c);
    OperandMemory slots =
        poisoned_operand(DType::fp32, 2 * list.documents.slots * kHeads, list.documents.length);
    move_statistics_into_slots_on_cuda({nullptr, scratch}, list, {statistics.view(), slots.view()}, kHeads);
    for (std::int64_t slot = 0; slot < 2 * list.documents.slots; ++slot) {
      const std::int32_t first = list.first_rows[slot], length = list.lengths[slot];
      for (std::int64_t head = 0; head < kHeads; ++head) {
        for (std::int64_t token = 0; token < list.documents.length; ++token) {
          const float value = slots.at(slot * kHeads + head, token);
          if (first == kEmptySlot || token >= align_up(length, kSlotUnit)) {
            ASSERT_NE(value, value);
          } else {
            ASSERT_EQ(value, token >= length ? 0
                                             : statistics.at(first / kSequence * kHeads + head,
                                                             first % kSequence + token));
          }
        }
      }
    }
    move_statistics_from_slots_on_cuda({nullptr, scratch}, list, {collected.view(), slots.view()}, kHeads);
  }
  for (std::int64_t row = 0; row < 2 * kHeads; ++row) {
    for (std::int64_t token = 0; token < kSequence; ++token) {
      if (row < kHeads && token == 129) continue;  // the document of one token
      ASSERT_EQ(collected.at(row, token), statistics.at(row, token)) << row << ", " << token;
    }
  }
  EXPECT_TRUE(collected.padding_is_untouched());
}

}  // namespace
}  // namespace strata
