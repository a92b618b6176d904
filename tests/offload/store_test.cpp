// What is written is what is read, whatever the engine, the folders and the way the transfers are cut.
#include <algorithm>
#include <thread>

#include "base/dirty_memory.h"
#include "base/error.h"
#include "tests/offload/store_fixture.h"
#include "tests/support/allocations.h"

namespace strata {
namespace {

using test::Block;
using test::message_of;

class StoreRoundTrip : public test::EveryStore {};
INSTANTIATE_TEST_SUITE_P(Every, StoreRoundTrip, ::testing::ValuesIn(test::all_store_kinds()), test::name_of);

TEST_P(StoreRoundTrip, GivesBackWhatWasWrittenAtOddMultiplesOfAPage) {
  options_.verify = true;
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  struct Range {
    Bytes offset, length;
  };
  const std::vector<Range> ranges = {{0, 4096},
                                     {4096, 3 * 4096},
                                     {7 * 4096, 1 * MiB},
                                     {2 * MiB - 4096, 2 * 4096},
                                     {3 * MiB, 5 * MiB + 13 * 4096},
                                     {options_.bytes - 4096, 4096}};
  for (std::size_t i = 0; i < ranges.size(); ++i)
    queue->write(ranges[i].offset, Block(ranges[i].length, i).bytes());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Block read(ranges[i].length, 99);
    queue->read(ranges[i].offset, read.bytes());
    EXPECT_EQ(read, Block(ranges[i].length, i)) << "at " << ranges[i].offset;
  }
}

TEST_P(StoreRoundTrip, IsFullOfDirtInTests) {
  const auto store = open_store(options_);
  const Block read(options_.bytes);
  store->open_queue()->read(0, read.bytes());
  EXPECT_EQ(std::ranges::count(read.bytes(), kDirt), options_.bytes);
}

TEST_P(StoreRoundTrip, HoldsItsWholeRangeInOneTransfer) {
  options_.bytes = 33 * MiB + 4096;
  const auto store = open_store(options_);
  EXPECT_EQ(store->bytes(), options_.bytes);
  const auto queue = store->open_queue();
  const Block written(options_.bytes, 5), read(options_.bytes);
  queue->write(0, written.bytes());
  queue->read(0, read.bytes());
  EXPECT_EQ(read, written);
}

TEST_P(StoreRoundTrip, IsReadInOtherPiecesThanItWasWritten) {
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  const Block written(options_.bytes, 3), read(options_.bytes);
  queue->write(0, written.bytes());
  constexpr Bytes kPiece = 37 * 4096;
  for (Bytes offset = 0; offset < options_.bytes; offset += kPiece)
    queue->read(offset,
                read.bytes().subspan(static_cast<std::size_t>(offset),
                                     static_cast<std::size_t>(std::min(kPiece, options_.bytes - offset))));
  EXPECT_EQ(read, written);
}

TEST_P(StoreRoundTrip, ServesQueuesOfSeveralThreadsAtOnce) {
  options_.verify = true;
  const auto store = open_store(options_);
  constexpr int kThreads = 4, kRounds = 5;
  const Bytes part = options_.bytes / kThreads;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread, writer = std::shared_ptr(store->open_queue()),
                          reader = std::shared_ptr(store->open_queue())] {
      const Block read(part);
      for (int round = 0; round < kRounds; ++round) {
        const Block written(part, static_cast<std::uint64_t>(thread * kRounds + round));
        writer->write(thread * part, written.bytes());
        reader->read(thread * part, read.bytes());
        EXPECT_EQ(read, written);
      }
    });
  }
}

TEST_P(StoreRoundTrip, QueueIsUsedByOneThreadAfterTheOther) {
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  const Block written(3 * MiB, 1), read(3 * MiB);
  std::thread([&] { queue->write(0, written.bytes()); }).join();
  std::thread([&] { queue->read(0, read.bytes()); }).join();
  EXPECT_EQ(read, written);
}

TEST_P(StoreRoundTrip, AllocatesNothingInATransfer) {
  options_.verify = true;
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  const Block block(options_.bytes);
  const std::int64_t before = test::allocations_so_far().all;
  for (int round = 0; round < 3; ++round) {
    queue->write(0, block.bytes());
    queue->read(0, block.bytes());
  }
  EXPECT_EQ(test::allocations_so_far().all, before);
}

TEST_P(StoreRoundTrip, RefusesTransfersBesideItsGridOrRange) {
  const auto store = open_store(options_);
  const auto queue = store->open_queue();
  const Block block(2 * 4096);
  EXPECT_THROW(queue->read(512, block.bytes()), std::logic_error);
  EXPECT_THROW(queue->read(0, block.bytes().first(4097)), std::logic_error);
  EXPECT_THROW(queue->read(0, block.bytes().subspan(64, 4096)), std::logic_error);
  EXPECT_THROW(queue->write(options_.bytes - 4096, block.bytes()), std::logic_error);
  queue->write(options_.bytes, block.bytes().first(0));
}

TEST_P(StoreRoundTrip, SaysHowItWorks) {
  const std::string description = open_store(options_)->describe();
  EXPECT_EQ(description.rfind(options_.engine == StoreEngine::io_uring ? "io_uring" : "threads", 0), 0U)
      << description;
  for (const std::string& folder : options_.folders) EXPECT_NE(description.find(folder), std::string::npos);
  EXPECT_EQ(description.find("50 %") != std::string::npos, options_.folders.size() == 2) << description;
}

TEST_P(StoreRoundTrip, LeavesQueuesThatRefuseWhenItIsClosed) {
  auto store = open_store(options_);
  const auto queue = store->open_queue();
  store.reset();
  const Block block(4096);
  const std::string message = message_of<IoError>([&] { queue->read(0, block.bytes()); });
  EXPECT_NE(message.find("closed"), std::string::npos) << message;
}

}  // namespace
}  // namespace strata
