#include "collectives/launcher.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

namespace strata::test {
namespace {

/// An environment without launchers, and with what a test adds to it.
class Launcher : public ::testing::Test {
 protected:
  static constexpr std::array kNames = {
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"};
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : kNames) unsetenv(name);
  }
};

TEST_F(Launcher, IsNotSeenWhereThereIsNone) {
  EXPECT_FALSE(started_by_launcher());
}

TEST_F(Launcher, IsSeenByTheRankAndItsNumber) {
  for (std::size_t i = 0; i < kNames.size(); i += 2) {
    clear();
    setenv(kNames[i + 1], "4", 1);
    EXPECT_FALSE(started_by_launcher()) << "a shell within an allocation";
    setenv(kNames[i], "0", 1);
    EXPECT_TRUE(started_by_launcher()) << kNames[i];
  }
}

TEST_F(Launcher, OfASingleProcessMakesNoRanks) {
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_FALSE(started_by_launcher());
}

TEST(ProcessAsARank, IsCalledByItsRankAndHost) {
  std::ifstream file("/proc/sys/kernel/hostname");
  std::string host;
  ASSERT_TRUE(file >> host);
  EXPECT_EQ(name_as_rank(2), "rank 2 (" + host + ")");
}

}  // namespace
}  // namespace strata::test
