#include "offload/limited_store.h"

#include <gtest/gtest.h>

#include "tests/base/virtual_time.h"
#include "tests/offload/store_fixture.h"

namespace strata {
namespace {

using test::VirtualTime;

/// Bytes in memory, moved at once.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(Bytes bytes) : memory_(bytes) {}

  Bytes bytes() const override { return std::ssize(memory_.bytes()); }
  std::string describe() const override { return "memory"; }
  std::unique_ptr<StoreQueue> open_queue() override { return std::make_unique<Queue>(memory_.bytes()); }

 private:
  struct Queue final : StoreQueue {
    explicit Queue(std::span<std::byte> all) : memory(all) {}
    void read(Bytes offset, std::span<std::byte> to) override {
      std::ranges::copy(memory.subspan(static_cast<std::size_t>(offset), to.size()), to.begin());
      count.read += std::ssize(to);
    }
    void write(Bytes offset, std::span<const std::byte> from) override {
      std::ranges::copy(from, memory.begin() + offset);
      count.written += std::ssize(from);
    }
    StoreCount take_count() override { return std::exchange(count, {}); }
    std::span<std::byte> memory;
    StoreCount count;
  };

  test::Block memory_;
};

constexpr Bytes kSize = 1 * MiB;

double seconds(const VirtualTime& time) {
  return (time.time - VirtualTime::Seconds(100)).count();
}

TEST(LimitedStore, MovesEveryByteInTheTimeOfItsRate) {
  VirtualTime time;
  time.wakes_early = true;
  const auto store =
      limit_store(std::make_unique<MemoryStore>(kSize), {.read = 4e6, .write = 1e6}, time.clock());
  const auto queue = store->open_queue();
  const test::Block written(kSize, 3), read(kSize);
  queue->write(0, written.bytes());
  EXPECT_EQ(queue->take_count().written, kSize);
  EXPECT_NEAR(seconds(time), kSize / 1e6, 1e-6);
  queue->read(0, read.bytes());
  EXPECT_NEAR(seconds(time), kSize / 1e6 + kSize / 4e6, 1e-6);
  EXPECT_EQ(read, written);
  EXPECT_EQ(store->bytes(), kSize);
  EXPECT_EQ(store->describe(), "memory; reads no faster than 3.81 MiB/s; writes no faster than 976.56 KiB/s");
}

TEST(LimitedStore, GivesADirectionWithoutLimitItsOwnSpeed) {
  VirtualTime time;
  const auto store =
      limit_store(std::make_unique<MemoryStore>(kSize), {.read = 4e6, .write = {}}, time.clock());
  store->open_queue()->write(0, test::Block(kSize).bytes());
  EXPECT_EQ(seconds(time), 0);
}

TEST(LimitedStore, SharesItsTimeOutToAllQueuesAndSavesNoneUp) {
  VirtualTime time;
  const auto store =
      limit_store(std::make_unique<MemoryStore>(kSize), {.read = 1e6, .write = 1e6}, time.clock());
  const auto reads = store->open_queue(), writes = store->open_queue();
  const test::Block memory(kSize);
  time.time += VirtualTime::Seconds(50);  // idle time is lost
  reads->read(0, memory.bytes());
  writes->write(0, memory.bytes());
  EXPECT_NEAR(seconds(time), 50 + 2 * kSize / 1e6, 1e-6);
}

}  // namespace
}  // namespace strata
