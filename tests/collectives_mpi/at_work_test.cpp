// A rank that computes for longer than the watchdog's time is waited for, also by those that wait for it only
// through others.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/at_work.h"
#include "tests/collectives/ranks.h"

namespace strata::test {
namespace {

/// run.sh gives the watchdog half a second.
// Invariant: Nothing waits forever and nothing at work is ended.
TEST(ARankAtWork, IsWaitedForByAll) {
  make_ranks(0)->run([](Communicator& group) {
    float sum = 1;
    if (group.rank() == 0) {
      const AtWork at_work;
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    group.all_reduce(&sum, &sum, 1, Element::fp32);
    EXPECT_EQ(sum, static_cast<float>(group.size()));
    if (group.rank() + 1 == group.size() && group.size() > 1) group.receive(&sum, 1, Element::fp32, 0);
    if (group.rank() == 0 && group.size() > 1) {
      {
        const AtWork at_work;
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      }
      group.send(&sum, 1, Element::fp32, group.size() - 1);
    }
    group.all_reduce(&sum, &sum, 1, Element::fp32);
  });
}

}  // namespace
}  // namespace strata::test
