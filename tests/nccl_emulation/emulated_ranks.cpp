// The ranks of the collective tests: threads, each with a stream and what nccl_rank.cpp makes of the
// communicator in host memory.
#include "tests/collectives/thread_ranks.h"
#include "tests/collectives_mpi/rank_of_process.h"

namespace strata::test {
namespace {

class EmulatedRanks final : public Ranks {
 public:
  explicit EmulatedRanks(int count) : on_host_(count, {}) {}

  void run(const std::function<void(Communicator&)>& body) override {
    on_host_.run([&](Communicator& host) { body(*rank_of_process(host.split(0, host.rank()))); });
  }

 private:
  ThreadRanks on_host_;
};

}  // namespace

std::vector<int> rank_counts() {
  return {1, 2, 3, 4};
}

std::unique_ptr<Ranks> make_ranks(int count, double /*watchdog_seconds*/) {
  return std::make_unique<EmulatedRanks>(count);
}

}  // namespace strata::test
