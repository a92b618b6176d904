// What the NCCL communicator does when NCCL or another rank fails.
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <thread>

#include "base/error.h"
#include "collectives/nccl_communicator.h"
#include "collectives/nccl_library.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/run_ranks.h"
#include "tests/cuda_emulation/stream.h"

namespace strata::test {
namespace {

/// What is added is done at once.
struct ImmediateStream final : CUstream_st {
  void add(std::function<void()> work) override { work(); }
};

/// What is added is done one after another by a thread.
struct BackgroundStream final : CUstream_st {
  void add(std::function<void()> work) override {
    last = std::jthread([before = std::move(last), work = std::move(work)]() mutable {
      if (before.joinable()) before.join();
      work();
    });
  }
  std::jthread last;
};

std::unique_ptr<Communicator> on_nccl(Communicator& host, CUstream_st& stream, double watchdog_seconds = 60) {
  return make_nccl_communicator(host.split(0, host.rank()),
                                {.stream = &stream, .watchdog_seconds = watchdog_seconds});
}

void wait_for_failure(const Communicator& group) {
  while (!group.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(NcclCommunicator, NamesTheStartThatARankDoesNotComeTo) {
  run_ranks(2, [](Communicator& host) {
    ImmediateStream stream;
    if (host.rank() == 0) {
      expect_error<CommError>([&] { on_nccl(host, stream, 0.2); }, {"start of NCCL on rank 0", "0.2 s"});
    } else {
      const std::unique_ptr<Communicator> copy = host.split(0, 1);
      ncclUniqueId id;
      copy->broadcast(&id, sizeof id, Element::byte, 0);
      wait_for_failure(host);
    }
  });
}

TEST(NcclCommunicator, EndsWithTheRankThatGivesUp) {
  run_ranks(3, [](Communicator& host) {
    ImmediateStream stream;
    const std::unique_ptr<Communicator> group = on_nccl(host, stream);
    if (host.rank() == 1) group->abort("the disk is full");
    wait_for_failure(*group);
    float value = 0;
    expect_error<EndedByRankError>(
        [&] { group->all_reduce(&value, &value, 1, Element::fp32); },
        {"all_reduce of 1 fp32 on rank " + std::to_string(host.rank()), "rank 1", "the disk is full"});
  });
}

TEST(NcclCommunicator, TellsAllRanksThatNcclFailed) {
  run_ranks(3, [](Communicator& host) {
    BackgroundStream stream;
    const std::unique_ptr<Communicator> group = on_nccl(host, stream);
    std::vector<float> values(4);
    // The third has no part in what fails, and hears of it through the host.
    if (host.rank() == 0) group->send(values.data(), 3, Element::fp32, 1);
    if (host.rank() == 1) group->receive(values.data(), 4, Element::fp32, 0);
    wait_for_failure(*group);
    EXPECT_THAT(*group->failure(), ::testing::HasSubstr("NCCL on rank "));
    EXPECT_TRUE(host.failure());
    expect_error<EndedByRankError>([&] { group->send(values.data(), 1, Element::fp32, 0); },
                                   {"remote process"});
  });
}

TEST(NcclCommunicator, ReleasesItsStreamWhereARankNeverComes) {
  std::latch released(1);
  run_ranks(2, [&](Communicator& host) {
    BackgroundStream stream;
    float value = 0;
    std::uint8_t issued = 1;
    std::unique_ptr<Communicator> group = on_nccl(host, stream);
    if (host.rank() == 1) {
      host.receive(&issued, 1, Element::byte, 0);
      group->abort("this rank has other plans");
      released.wait();  // so that it is the other rank's abort that released it
      return;
    }
    group->all_reduce(&value, &value, 1, Element::fp32);
    host.send(&issued, 1, Element::byte, 1);
    wait_for_failure(*group);
    group.reset();
    stream.last.join();
    released.count_down();
  });
}

TEST(NcclCommunicator, AnyThreadMayAskForTheFailureMeanwhile) {
  run_ranks(2, [](Communicator& host) {
    BackgroundStream stream;
    const std::unique_ptr<Communicator> group = on_nccl(host, stream);
    std::jthread asker([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) EXPECT_EQ(group->failure(), std::nullopt);
    });
    std::vector<float> values(200, 1.0F);
    for (float& value : values) group->all_reduce(&value, &value, 1, Element::fp32);
    asker.request_stop();
    asker.join();
    stream.last.join();
    EXPECT_EQ(values, std::vector<float>(200, 2.0F));
  });
}

}  // namespace
}  // namespace strata::test
