// The collective tests with the processes of a launcher as ranks: PROGRAM WATCHDOG_SECONDS [--messages]
// [GoogleTest's flags]. --messages: ranks do not read each other's memory. Every process runs all cases; the
// first prints, the others only what failed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "collectives/launcher.h"
#include "collectives/mpi_world.h"
#include "collectives/process_memory.h"
#include "tests/collectives_mpi/rank_of_process.h"

namespace strata::test {
namespace {

MpiWorld* world = nullptr;
int world_size = 0;

class ThisProcess final : public Ranks {
 public:
  void run(const std::function<void(Communicator&)>& body) override {
    try {
      body(*rank_);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank_->rank() << ": " << error.what();
      rank_->abort("the test failed");
    }
  }

 private:
  std::unique_ptr<Communicator> rank_ = rank_of_process(world->communicator());
};

/// Prints what failed, with the rank.
class Failures final : public ::testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}
  // GoogleTest cannot be asked for the case from within OnTestPartResult().
  void OnTestStart(const ::testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() != nullptr ? result.file_name() : "an error escaped";
    std::cerr << "rank " << rank_ << ", " << test_ << ": " << file << ":" << result.line_number() << ": "
              << result.message() << std::endl;
  }

 private:
  const int rank_;
  std::string test_;
};

}  // namespace

std::vector<int> rank_counts() {
  return {world_size};
}

std::unique_ptr<Ranks> make_ranks(int /*count*/, double /*watchdog_seconds*/) {
  return std::make_unique<ThisProcess>();
}

TEST(Launcher, IsKnown) {
  EXPECT_EQ(started_by_launcher(), world_size > 1);
}

bool only_messages = false;

TEST(Launcher, RanksReadEachOthersMemoryWhereTheyMayAndCan) {
  std::vector<ProcessMark> marks(static_cast<std::size_t>(world_size));
  const ProcessMark own = mark_of_this_process();
  const std::unique_ptr<Communicator> group = world->communicator();
  group->all_gather(&own, marks.data(), sizeof own, Element::byte);
  float can = 1;  // launches of these tests have one host
  for (const ProcessMark& mark : marks) can = can_read(mark) ? can : 0;
  group->all_reduce(&can, &can, 1, Element::fp32, ReduceOp::min);
  EXPECT_EQ(world->reads_memory(), !only_messages && can == 1);
}

/// Launched by itself: nobody is left to say how it went but the launcher.
// Invariant (StoppedRankFailure.*): No memory is touched after a failed call.
TEST(StoppedRankFailure, EndsAllBeforeAnyCallReturns) {
  const std::unique_ptr<Communicator> group = world->communicator();
  std::vector<float> values(1'000'000);
  group->all_reduce(values.data(), values.data(), values.size(), Element::fp32);
  if (group->rank() + 1 == group->size()) {
    // The launcher wakes it to end it. Were it to answer then, others could return before they are ended.
    std::signal(SIGCONT, [](int) { std::_Exit(1); });
    raise(SIGSTOP);
  }
  try {
    group->all_reduce(values.data(), values.data(), values.size(), Element::fp32);
  } catch (const std::exception&) {
  }
  std::cerr << "a call returned while a rank may touch its memory" << std::endl;
}

int run_all(int argc, char** argv) {
  only_messages = argc > 2 && std::string_view(argv[2]) == "--messages";
  MpiWorld mpi({.watchdog_seconds = std::atof(argv[1]), .reads_memory = !only_messages});
  const std::unique_ptr<Communicator> group = mpi.communicator();
  world = &mpi;
  world_size = group->size();
  ::testing::InitGoogleTest(&argc, argv);
  if (group->rank() > 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures(group->rank()));
  }
  return RUN_ALL_TESTS();
}

}  // namespace strata::test

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: mpirun -n RANKS PROGRAM WATCHDOG_SECONDS [--messages] [GoogleTest's flags]\n";
    return 2;
  }
  return strata::test::run_all(argc, argv);
}
