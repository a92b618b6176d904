// What every communicator does when a rank gives up or does not come. Under a launcher each case needs a
// launch of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "collectives/agreement.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/ranks.h"

namespace strata::test {
namespace {

constexpr double kWatchdogSeconds = 0.5;

class Failure : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Failure, ::testing::ValuesIn(rank_counts()),
                         ::testing::PrintToStringParamName());

void all_reduce(Communicator& group, std::size_t count) {
  std::vector<float> values(count);
  group.all_reduce(values.data(), values.data(), count, Element::fp32);
}

/// Rank 0 returns when all have come, so that nothing that it does next disturbs what they did before.
void assemble(Communicator& group) {
  std::uint8_t here = 1;
  if (group.rank() > 0) return group.send(&here, 1, Element::byte, 0);
  for (int r = 1; r < group.size(); ++r) group.receive(&here, 1, Element::byte, r);
}

/// Returns when the rank knows of a failure without having made a call; a minute is more than any watchdog
/// here.
std::string failure_heard_of(const Communicator& group) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!group.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return group.failure().value_or("nothing was heard of");
}

// Invariant of failures (Failure.*): No rank waits forever. A rank that fails, leaves or never comes ends the
// calls of all ranks with its name.
TEST_P(Failure, AbortEndsTheCallsOfAllRanksAndGroups) {
  if (GetParam() < 2) return;
  make_ranks(GetParam(), kWatchdogSeconds)->run([](Communicator& group) {
    const std::unique_ptr<Communicator> copy = group.split(0, group.rank());
    assemble(*copy);
    if (group.rank() == 0) {
      group.abort("the disk is full");
      expect_error<CommError>([&] { all_reduce(*copy, 3); }, {"all_reduce of 3 fp32", "the disk is full"});
    } else {
      expect_error<CommError>(
          [&] { all_reduce(*copy, 3); },
          {"all_reduce of 3 fp32 on rank " + std::to_string(group.rank()), "rank 0", "the disk is full"});
      EXPECT_THAT(group.failure().value_or(""), ::testing::HasSubstr("the disk is full"));
      expect_error<CommError>([&] { all_reduce(group, 1); }, {"the disk is full"});
    }
  });
}

TEST_P(Failure, ARankThatNeverComesIsNamedWithTheCall) {
  if (GetParam() < 2) return;
  make_ranks(GetParam(), kWatchdogSeconds)->run([](Communicator& group) {
    all_reduce(group, 100);
    const std::string absent = "rank " + std::to_string(group.size() - 1);
    if (group.rank() + 1 == group.size()) {
      EXPECT_THAT(failure_heard_of(group), ::testing::HasSubstr(absent));
    } else {
      expect_error<CommError>([&] { all_reduce(group, 100'000); },
                              {"all_reduce of 100000 fp32", "0.5 s for " + absent});
    }
  });
}

TEST_P(Failure, AMessageThatNeverComesIsNamed) {
  if (GetParam() < 2) return;
  make_ranks(GetParam(), kWatchdogSeconds)->run([](Communicator& group) {
    if (group.rank() == 0) {
      double value = 0;
      expect_error<CommError>([&] { group.receive(&value, 1, Element::fp64, 1); },
                              {"receive of 1 fp64 on rank 0", "0.5 s for rank 1"});
    } else {
      EXPECT_THAT(failure_heard_of(group), ::testing::HasSubstr("receive of 1 fp64 on rank 0"));
    }
  });
}

TEST_P(Failure, MessagesOfDifferentLengthsDoNotMatch) {
  if (GetParam() < 2) return;
  make_ranks(GetParam(), kWatchdogSeconds)->run([](Communicator& group) {
    std::vector<double> values(100);
    assemble(group);
    if (group.rank() == 0) {
      expect_error<CommError>([&] { group.receive(values.data(), 99, Element::fp64, 1); },
                              {"receive of 99 fp64 on rank 0", "rank 1", "length"});
    } else if (group.rank() == 1) {
      // Whether a short message has left before it is refused is the communicator's affair.
      try {
        group.send(values.data(), 100, Element::fp64, 0);
      } catch (const CommError&) {
      }
      EXPECT_THAT(failure_heard_of(group), ::testing::HasSubstr("receive of 99 fp64 on rank 0"));
    }
  });
}

TEST_P(Failure, PartsOfDifferentLengthsDoNotMatch) {
  if (GetParam() < 2) return;
  make_ranks(GetParam(), kWatchdogSeconds)->run([](Communicator& group) {
    const std::size_t count = group.rank() == 0 ? 100'001 : 100'000;
    const std::vector<float> part(count);
    std::vector<float> whole(count * static_cast<std::size_t>(group.size()));
    assemble(group);
    expect_error<CommError>([&] { group.all_gather(part.data(), whole.data(), count, Element::fp32); },
                            {"all_gather of"});
  });
}

/// Rank 0 gathers while the others reduce; what each sends and receives is equally long.
void meet_in_different_calls(Communicator& group, std::size_t count) {
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<float> part(count), whole(count * size);
  assemble(group);
  const auto call = [&] {
    if (group.rank() == 0) {
      group.all_gather(part.data(), whole.data(), count, Element::fp32);
    } else {
      group.reduce_scatter(whole.data(), part.data(), count, Element::fp32);
    }
  };
  expect_error<CommError>(call, {"all_gather of " + std::to_string(count) + " fp32 on rank 0",
                                 "reduce_scatter of " + std::to_string(count) + " fp32 on rank", "its call"});
}

// Invariant (Failure.*OfOneLength*): Processes are one run.
TEST_P(Failure, OperationsOfOneLengthDoNotMatch) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) { meet_in_different_calls(group, 100); });
}

TEST_P(Failure, LongOperationsOfOneLengthDoNotMatch) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) { meet_in_different_calls(group, 1'000'000); });
}

TEST_P(Failure, ReductionsOfOneLengthDoNotMatch) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) {
    std::vector<float> values(100);
    const ReduceOp op = group.rank() == 0 ? ReduceOp::max : ReduceOp::sum;
    assemble(group);
    expect_error<CommError>([&] { group.all_reduce(values.data(), values.data(), 100, Element::fp32, op); },
                            {"all_reduce of 100 fp32 (max) on rank 0", "all_reduce of 100 fp32 on rank"});
  });
}

TEST_P(Failure, ACallThatARankLeavesOutIsNoticedInTheNext) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) {
    const float none = 0;
    std::vector<float> nothing(static_cast<std::size_t>(group.size()));
    assemble(group);
    expect_error<CommError>(
        [&] {
          if (group.rank() == 0)
            group.all_gather(&none, nothing.data(), 0, Element::fp32);  // nothing travels
          all_reduce(group, 100);
        },
        {"all_reduce of 100 fp32", "its call"});
  });
}

TEST_P(Failure, MessagesDoNotMeetCallsOfTheGroup) {
  if (GetParam() != 2) return;
  make_ranks(2, kWatchdogSeconds)->run([](Communicator& group) {
    const std::vector<float> own(100);
    std::vector<float> other(200);
    assemble(group);
    expect_error<CommError>(
        [&] {
          if (group.rank() == 0) return group.receive(other.data(), 100, Element::fp32, 1);
          group.all_gather(own.data(), other.data(), 100, Element::fp32);
        },
        {"100 fp32 on rank"});
  });
}

/// The first rank could end the calls of all long before they hear of its error.
TEST_P(Failure, AnErrorThatAllAgreeOnIsHeardByThoseWhoComeLater) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) {
    if (group.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    expect_error<ConfigError>([&] { on_first_rank(&group, [] { throw ConfigError("no such model"); }); },
                              {"rank 0", "no such model"});
    group.abort("no such model");
  });
}

/// While ranks gather without end, one of them aborts, from a thread of its own as an executor does.
// Invariant of failures (Failure.NoMemoryIsWritten*): No memory is touched after a failed call. When the
// owner of the memory has heard of the failure, no rank reads or writes that memory.
TEST_P(Failure, NoMemoryIsWrittenAfterItsOwnerWasTold) {
  if (GetParam() < 2) return;
  make_ranks(GetParam())->run([](Communicator& group) {
    constexpr std::size_t kCount = std::size_t{2} << 20;
    constexpr std::uint8_t kOwners = 0xA5;
    std::vector<std::uint8_t> part(kCount, std::uint8_t(group.rank()));
    std::vector<std::uint8_t> whole(kCount * static_cast<std::size_t>(group.size()));
    assemble(group);
    std::thread other_lane([&] {
      if (group.rank() + 1 < group.size()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      group.abort("the disk is full");
    });
    expect_error<CommError>(
        [&] {
          while (true) group.all_gather(part.data(), whole.data(), kCount, Element::byte);
        },
        {"the disk is full"});
    std::ranges::fill(whole, kOwners);
    other_lane.join();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what is under way would arrive
    EXPECT_EQ(std::ranges::count(whole, kOwners), static_cast<std::ptrdiff_t>(whole.size()));
  });
}

}  // namespace
}  // namespace strata::test
