#include "tests/collectives/thread_ranks.h"

namespace strata::test {

std::vector<int> rank_counts() {
  return {1, 2, 3, 4, 8};
}

bool folds_in_order() {
  return true;
}

std::unique_ptr<Ranks> make_ranks(int count, double watchdog_seconds) {
  return std::make_unique<ThreadRanks>(count,
                                       ThreadCommunicatorOptions{.watchdog_seconds = watchdog_seconds});
}

}  // namespace strata::test
