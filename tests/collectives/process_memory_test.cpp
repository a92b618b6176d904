#include "collectives/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/collectives/values.h"

namespace strata::test {
namespace {

/// A copy of this process, which waits.
class Child {
 public:
  Child() : process_(fork()) {
    if (process_ != 0) return;
    for (;;) pause();
  }
  ~Child() { end(); }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_;
};

TEST(ProcessMemory, IsCopiedFromTheOtherProcess) {
  if (!can_read(mark_of_this_process())) GTEST_SKIP() << "the kernel does not let processes read memory here";
  constexpr std::size_t kCount = 1'000'003;
  std::vector<float> values = values_of<float>(1, 0, kCount);
  Child child;
  const pid_t process = child.process();
  ASSERT_GT(process, 0);
  ProcessMark mark = mark_of_this_process();
  mark.process = process;
  EXPECT_TRUE(can_read(mark));
  ++mark.token;
  EXPECT_FALSE(can_read(mark));  // it is not the process that made the mark

  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  const std::vector<float> expected = values;
  values.assign(kCount, 0);  // here, not there
  std::vector<float> copied(kCount);
  read_memory(process, address, reinterpret_cast<std::byte*>(copied.data()), kCount * sizeof(float));
  EXPECT_TRUE(same_bits(copied, expected));
  std::byte nothing{};
  test::expect_error<IoError>([&] { read_memory(process, 1, &nothing, 1); },
                              {std::to_string(process), "address"});
  child.end();
  test::expect_error<IoError>([&] { read_memory(process, address, &nothing, 1); }, {std::to_string(process)});
  EXPECT_FALSE(can_read(mark));
}

}  // namespace
}  // namespace strata::test
