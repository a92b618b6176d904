// What every communicator does when a rank gives up or does not come. Under a launcher each case needs a
// launch of its own.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/base/error.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/ranks.h"

namespace strata::testing {
namespace {

using test::expect_error;

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

}  // namespace
}  // namespace strata::testing
