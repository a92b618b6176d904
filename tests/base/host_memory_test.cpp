#include "base/host_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

/// A folder in the place of /.
class FakeRoot : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Bytes limit() { return memory_limit(folder_ / ""); }

 private:
  test::TemporaryFolder folder_;
};

constexpr const char* kSixteenGiB = "MemFree:  1000 kB\nMemTotal:       16777216 kB\nSwapTotal: 5 kB\n";

TEST_F(FakeRoot, WithNothingToReadHasNoLimit) {
  EXPECT_EQ(limit(), kUnlimited);
}

TEST_F(FakeRoot, HasTheMachinesMemory) {
  write("proc/meminfo", kSixteenGiB);
  EXPECT_EQ(limit(), 16 * GiB);
  write("proc/self/cgroup", "0::/user.slice\n");
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_EQ(limit(), 16 * GiB);
}

TEST_F(FakeRoot, HasTheLeastLimitOfTheGroupsAroundIt) {
  write("proc/meminfo", kSixteenGiB);
  write("proc/self/cgroup", "0::/jobs/train/step\n");
  write("sys/fs/cgroup/jobs/train/step/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/train/memory.max", "3221225472\n");
  write("sys/fs/cgroup/jobs/memory.max", "8589934592\n");
  EXPECT_EQ(limit(), 3 * GiB);
}

TEST_F(FakeRoot, OfAContainerSeesItsGroupAsTheTop) {
  write("proc/meminfo", kSixteenGiB);
  write("proc/self/cgroup", "0::/somewhere/on/the/host\n");
  write("sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(limit(), 2 * GiB);
}

TEST_F(FakeRoot, ReadsVersionOneToo) {
  write("proc/meminfo", kSixteenGiB);
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 16 * GiB);
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(limit(), GiB);
}

TEST_F(FakeRoot, IsNotFooledByWhatItCannotRead) {
  write("proc/meminfo", "MemTotal: much kB\n");
  write("proc/self/cgroup", "nonsense\n0::\n");
  write("sys/fs/cgroup/memory.max", "-5\n");
  EXPECT_EQ(limit(), kUnlimited);
}

TEST(UsableMemory, OfThisMachineIsSomeAndFinite) {
  EXPECT_GT(usable_memory(), 64 * MiB);
  EXPECT_LT(usable_memory(), kUnlimited);
}

}  // namespace
}  // namespace strata
