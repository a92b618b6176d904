// Late, broken and dead ranks, injected into a threads communicator.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/thread_ranks.h"
#include "tests/collectives/values.h"

namespace strata::test {
namespace {

/// Calls `act` before the call number `index` of `rank`, and lets all others be.
class FaultAt final : public CommFaults {
 public:
  FaultAt(int rank, std::int64_t index, std::function<Fate(const CommAttempt&)> act)
      : rank_(rank), index_(index), act_(std::move(act)) {}
  Fate before(const CommAttempt& attempt) override {
    return attempt.rank == rank_ && attempt.index == index_ ? act_(attempt) : Fate::arrives;
  }

 private:
  const int rank_;
  const std::int64_t index_;
  const std::function<Fate(const CommAttempt&)> act_;
};

float sum_of_ones(Communicator& group) {
  float value = 1;
  group.all_reduce(&value, &value, 1, Element::fp32);
  return value;
}

// Invariant (ThreadFaults.*): No rank waits forever.
TEST(ThreadFaults, ALateRankDelaysTheOthersAndChangesNothing) {
  std::promise<void> go;
  std::atomic<int> done = 0;
  FaultAt late(1, 1, [&](const CommAttempt& attempt) {
    EXPECT_EQ(attempt.operation, "all_reduce");
    EXPECT_EQ(done, 0) << "a rank was done before all had come";
    go.get_future().wait();
    return CommFaults::Fate::arrives;
  });
  ThreadRanks(3, {.watchdog_seconds = 60, .faults = &late}).run([&](Communicator& group) {
    EXPECT_EQ(sum_of_ones(group), 3);
    if (group.rank() == 0) go.set_value();
    EXPECT_EQ(sum_of_ones(group), 3);
    ++done;
  });
}

TEST(ThreadFaults, ARankThatFailsEndsTheCallsOfTheOthersByName) {
  FaultAt broken(2, 3, [](const CommAttempt&) -> CommFaults::Fate { throw IoError("its disk is broken"); });
  ThreadRanks(4, {.watchdog_seconds = 60, .faults = &broken}).run([](Communicator& group) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sum_of_ones(group), 4);
    if (group.rank() == 2) {
      expect_error<IoError>([&] { sum_of_ones(group); }, {"its disk is broken"});
    } else {
      expect_error<CommError>([&] { sum_of_ones(group); }, {"on rank " + std::to_string(group.rank()),
                                                            "rank 2 failed", "its disk is broken"});
    }
  });
}

TEST(ThreadFaults, ADeadRankIsMissed) {
  FaultAt dead(1, 1, [](const CommAttempt&) { return CommFaults::Fate::never_arrives; });
  ThreadRanks(3, {.watchdog_seconds = 0.2, .faults = &dead}).run([](Communicator& group) {
    EXPECT_EQ(sum_of_ones(group), 3);
    expect_error<CommError>([&] { sum_of_ones(group); }, {"all_reduce of 1 fp32", "rank 1"});
  });
}

TEST(ThreadFaults, EveryCallCanBeTheLastOfEveryRank) {
  for (int victim = 0; victim < 2; ++victim) {
    for (std::int64_t index = 0; index < 7; ++index) {
      FaultAt broken(victim, index, [](const CommAttempt&) -> CommFaults::Fate { throw IoError("enough"); });
      std::atomic<int> ended = 0;
      ThreadRanks(2, {.watchdog_seconds = 60, .faults = &broken}).run([&](Communicator& group) {
        try {
          std::vector<float> all(200'000), own(100'000);
          const auto copy = group.split(0, 0);
          group.all_gather(own.data(), all.data(), own.size(), Element::fp32);
          group.reduce_scatter(all.data(), own.data(), own.size(), Element::fp32);
          group.broadcast(own.data(), own.size(), Element::fp32, 0);
          group.all_to_all(all.data(), std::vector<float>(200'000).data(), own.size(), Element::fp32);
          group.begin_group();
          group.send(own.data(), own.size(), Element::fp32, 1 - group.rank());
          group.receive(all.data(), own.size(), Element::fp32, 1 - group.rank());
          group.end_group();
          sum_of_ones(group);
        } catch (const Error&) {
          ++ended;
        }
      });
      EXPECT_EQ(ended, 2) << "call " << index << " of rank " << victim;
    }
  }
}

TEST(ThreadFaults, RanksThatCallDifferentThingsAreToldSo) {
  ThreadRanks(2, {.watchdog_seconds = 60}).run([](Communicator& group) {
    std::vector<float> values(20);
    expect_error<CommError>(
        [&] {
          if (group.rank() == 0) group.all_reduce(values.data(), values.data(), 7, Element::fp32);
          if (group.rank() == 1) group.all_reduce(values.data(), values.data(), 8, Element::fp32);
        },
        {"all_reduce of 7 fp32", "all_reduce of 8 fp32", "rank 0", "rank 1"});
  });
}

}  // namespace
}  // namespace strata::test
