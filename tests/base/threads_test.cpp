#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <system_error>

#include "base/bytes.h"

namespace strata {
namespace {

TEST(Threads, AreAllThereBeforeAnyWorks) {
  constexpr std::size_t kThreads = 8;
  std::barrier<> all(kThreads);
  std::atomic<std::size_t> sum = 0;
  on_threads(kThreads, [&](std::size_t i) {
    all.arrive_and_wait();
    sum += i;
  });
  EXPECT_EQ(sum, kThreads * (kThreads - 1) / 2);
}

/// Address space for a few stacks.
class LittleAddressSpace {
 public:
  LittleAddressSpace() {
    ::getrlimit(RLIMIT_AS, &before_);
    std::ifstream file("/proc/self/statm");
    Bytes pages = 0;
    file >> pages;
    rlimit little = before_;
    little.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + 24 * MiB);
    ::setrlimit(RLIMIT_AS, &little);
  }
  ~LittleAddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }
  LittleAddressSpace(const LittleAddressSpace&) = delete;
  LittleAddressSpace& operator=(const LittleAddressSpace&) = delete;

 private:
  rlimit before_{};
};

TEST(Threads, OfWhichOneCannotBeStartedDoNothingAndAreJoined) {
  std::atomic<int> worked = 0;
  const LittleAddressSpace little;
  EXPECT_THROW(on_threads(1000, [&](std::size_t) { ++worked; }), std::system_error);
  EXPECT_EQ(worked, 0);
}

}  // namespace
}  // namespace strata
