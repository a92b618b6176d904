// Disks that fail: a transfer either has all its bytes in the end, or says which file, where and why not.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/watchdog.h"
#include "offload/io_faults.h"
#include "offload/stripe_map.h"
#include "tests/offload/store_fixture.h"

namespace strata {
namespace {

using test::Block;
using test::contains;
using test::message_of;

/// A rule for each attempt, which is told how many of its direction came before.
class Rule final : public IoFaults {
 public:
  using Choose = std::function<BlockFault(const BlockAttempt&, int before)>;
  explicit Rule(Choose choose) : choose_(std::move(choose)) {}
  BlockFault before(const BlockAttempt& attempt) override {
    const std::lock_guard lock(mutex_);
    return choose_(attempt, attempt.write ? writes_++ : reads_++);
  }

 private:
  std::mutex mutex_;
  Choose choose_;
  int writes_ = 0, reads_ = 0;
};

class StoreFaults : public test::EveryStore {
 protected:
  void open(IoFaults& faults) {
    options_.faults = &faults;
    store_ = open_store(options_);
    queue_ = store_->open_queue();
  }
  /// For rules that are still asked after the transfer's error.
  void close() {
    queue_.reset();
    store_.reset();
  }
  /// The sentence with which this read of the whole store fails.
  std::string read_error() {
    return message_of<IoError>([&] { queue_->read(0, memory_.bytes()); });
  }
  std::string write_error() {
    return message_of<IoError>([&] { queue_->write(0, memory_.bytes()); });
  }
  void expect_round_trip() {
    const Block written(options_.bytes, 7);
    queue_->write(0, written.bytes());
    queue_->read(0, memory_.bytes());
    EXPECT_EQ(memory_, written);
  }

  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreQueue> queue_;
  Block memory_{16 * MiB};
};
INSTANTIATE_TEST_SUITE_P(Every, StoreFaults, ::testing::ValuesIn(test::all_store_kinds()), test::name_of);

// Invariant (StoreFaults*.*): A failing drive loses nothing.
TEST_P(StoreFaults, BytesThatAreMovedAgainAreCountedOnce) {
  Rule rule([](const BlockAttempt& attempt, int before) {
    return before % 2 == 0 ? BlockFault{.limit = attempt.length / 2 / 4096 * 4096 + 100} : BlockFault{};
  });
  open(rule);
  queue_->write(0, memory_.bytes());
  const StoreCount written = queue_->take_count();
  EXPECT_EQ(written.written, std::ssize(memory_.bytes()));
  EXPECT_EQ(written.read, 0);
  EXPECT_EQ(written.end, std::ssize(memory_.bytes()));
  queue_->read(8192, memory_.bytes().first(4096));
  const StoreCount read = queue_->take_count();
  EXPECT_EQ(read.read, 4096);
  EXPECT_EQ(read.written, 0);
  EXPECT_EQ(read.end, 8192 + 4096);
  EXPECT_EQ(queue_->take_count().end, 0);
}

TEST_P(StoreFaults, ErrorNamesFileOffsetLengthAndReason) {
  Rule rule([](const BlockAttempt& attempt, int) {
    return BlockFault{.error = attempt.offset == 3 * kStoreBlock ? (attempt.write ? ENOSPC : EIO) : 0};
  });
  open(rule);
  const std::string write = write_error(), read = read_error();
  for (const std::string& message : {write, read}) {
    EXPECT_TRUE(names_a_file(message)) << message;
    EXPECT_TRUE(contains(message, "2097152 bytes at offset 6291456")) << message;
  }
  EXPECT_TRUE(contains(write, "cannot write") && contains(write, "No space left on device")) << write;
  EXPECT_TRUE(contains(read, "cannot read") && contains(read, "Input/output error")) << read;
}

TEST_P(StoreFaults, QueueGoesOnAfterAnError) {
  Rule rule([](const BlockAttempt& attempt, int before) {
    return BlockFault{.error = attempt.write && before == 0 ? EIO : 0};
  });
  open(rule);
  write_error();
  expect_round_trip();
}

TEST_P(StoreFaults, TriesAgainWhatTheSystemHadNoRoomFor) {
  Rule rule([](const BlockAttempt&, int before) {
    return BlockFault{.error = before % 3 == 0 ? EAGAIN : before % 3 == 1 ? EINTR : 0};
  });
  open(rule);
  expect_round_trip();
}

TEST_P(StoreFaults, GoesOnAfterShortTransfersFromAnAlignedPlace) {
  std::atomic<bool> aligned = true;
  Rule rule([&](const BlockAttempt& attempt, int) {
    if (attempt.offset % kStoreAlignment != 0) aligned = false;
    return BlockFault{.limit = attempt.length > 300 * KiB ? 250'001 : BlockFault::kAll};
  });
  options_.verify = true;
  open(rule);
  expect_round_trip();
  EXPECT_TRUE(aligned);
}

TEST_P(StoreFaults, TriesAgainWhereLessThanAPageWasMoved) {
  Rule rule([](const BlockAttempt&, int before) {
    return BlockFault{.limit = before % 2 == 0 ? 100 : BlockFault::kAll};
  });
  open(rule);
  expect_round_trip();
}

TEST_P(StoreFaults, EndOfTheFileInsideItIsAnError) {
  Rule rule([](const BlockAttempt& attempt, int) {
    return BlockFault{.limit = !attempt.write && attempt.offset == kStoreBlock ? 0 : BlockFault::kAll};
  });
  open(rule);
  queue_->write(0, memory_.bytes());
  const std::string message = read_error();
  EXPECT_TRUE(names_a_file(message) && contains(message, "offset 2097152") &&
              contains(message, "ends before"))
      << message;
}

TEST_P(StoreFaults, TornWriteIsFoundByVerify) {
  std::atomic<bool> tear = false;
  Rule rule([&](const BlockAttempt& attempt, int) {
    if (!tear || !attempt.write || attempt.offset != 2 * kStoreBlock) return BlockFault{};
    return BlockFault{.limit = 512 * KiB, .torn = true};
  });
  options_.verify = true;
  open(rule);
  queue_->write(0, memory_.bytes());
  tear = true;
  queue_->write(0, Block(options_.bytes, 9).bytes());
  const std::string message = read_error();
  EXPECT_TRUE(names_a_file(message) && contains(message, "offset 4718592") &&
              contains(message, "changed on disk"))
      << message;
}

TEST_P(StoreFaults, FlippedBitIsFoundByVerify) {
  Rule rule([](const BlockAttempt& attempt, int) {
    return BlockFault{.flipped_bit = !attempt.write && attempt.offset == kStoreBlock ? 8 * 9000 + 3 : -1};
  });
  options_.verify = true;
  open(rule);
  queue_->write(0, memory_.bytes());
  const std::string message = read_error();
  EXPECT_TRUE(names_a_file(message) && contains(message, "offset 2105344") &&
              contains(message, "changed on disk"))
      << message;
}

TEST_P(StoreFaults, VerifyRefusesToReadWhatWasNeverWritten) {
  Rule rule([](const BlockAttempt&, int) { return BlockFault{}; });
  options_.verify = true;
  open(rule);
  queue_->write(0, memory_.bytes().first(MiB));
  EXPECT_TRUE(contains(read_error(), "nothing was ever written"));
}

// Invariant: Nothing waits forever and nothing at work is ended.
TEST_P(StoreFaults, SlowDiskIsWaitedFor) {
  Rule rule(
      [](const BlockAttempt&, int before) { return BlockFault{.delay_seconds = before == 2 ? 0.02 : 0}; });
  open(rule);
  expect_round_trip();
}

/// What the watchdog says of a drive; the drive answers once it has.
class Hangs {
 public:
  /// Returns once the watchdog has spoken.
  void meet() { spoken_.wait(); }
  /// To be called when nothing of the store is under way.
  std::string said() const { return said_; }

 private:
  std::string said_;
  std::promise<void> speak_;
  std::shared_future<void> spoken_ = speak_.get_future().share();
  Watchdog watchdog_{0.05, [this](const std::string& hang) {
                       if (!said_.empty()) return;
                       said_ = hang;
                       speak_.set_value();
                     }};
};

TEST_P(StoreFaults, ATransferThatHangsIsToldOfAndWaitedFor) {
  Hangs hangs;
  Rule rule([&](const BlockAttempt& attempt, int) {
    if (attempt.write && attempt.offset == kStoreBlock) hangs.meet();
    return BlockFault{};
  });
  open(rule);
  expect_round_trip();
  EXPECT_TRUE(names_a_file(hangs.said()) && contains(hangs.said(), "writing at offset ")) << hangs.said();
  EXPECT_TRUE(contains(hangs.said(), "has not advanced for 0.05 s")) << hangs.said();
}

TEST_P(StoreFaults, TryingAgainForEverIsNoAdvance) {
  std::atomic<bool> spoken = false;
  const Watchdog watchdog(0.05, [&](const std::string&) { spoken = true; });
  Rule rule([&](const BlockAttempt&, int) { return BlockFault{.error = spoken ? 0 : EAGAIN}; });
  open(rule);
  expect_round_trip();
  EXPECT_TRUE(spoken);
}

/// Eight blocks of 0.1 s each: the transfer takes longer than the limit, no block does.
class StoreFaultsLongTest : public StoreFaults {};
INSTANTIATE_TEST_SUITE_P(Every, StoreFaultsLongTest, ::testing::ValuesIn(test::all_store_kinds()),
                         test::name_of);

TEST_P(StoreFaultsLongTest, ATransferLongerThanTheWatchdogThatAdvancesIsNotToldOf) {
  std::atomic<bool> spoken = false;
  const Watchdog watchdog(0.5, [&](const std::string&) { spoken = true; });
  Rule rule([&](const BlockAttempt&, int) { return BlockFault{.limit = 512 * KiB, .delay_seconds = 0.03}; });
  open(rule);
  expect_round_trip();
  EXPECT_FALSE(spoken);
}

TEST_P(StoreFaults, StoreIsGoneOnlyWhenNothingIsInFlight) {
  std::atomic<bool> begun = false, ended = false;
  Rule rule([&](const BlockAttempt&, int before) {
    begun = true;
    return BlockFault{.delay_seconds = before == 0 ? 0.05 : 0};
  });
  open(rule);
  std::jthread writer([&] {
    queue_->write(0, memory_.bytes());
    ended = true;
  });
  while (!begun) std::this_thread::yield();
  store_.reset();
  writer.join();
  EXPECT_TRUE(ended) << "the transfer was to be whole";
}

}  // namespace
}  // namespace strata
