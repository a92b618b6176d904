#include "collectives/launcher.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

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
    for (const char* name : {"SLURM_STEP_NUM_TASKS", "RANK", "WORLD_SIZE"}) unsetenv(name);
  }
  static std::string why_not_alone_with(const std::vector<std::pair<const char*, const char*>>& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    return why_not_alone();
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

TEST_F(Launcher, IsWhatStartsAsManyRanksAgain) {
  EXPECT_EQ(launch_words(1), "");
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(launch_words(4), "mpirun -n 4 ");
  clear();
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_NTASKS", "2", 1);
  EXPECT_EQ(launch_words(2), "srun --mpi=pmix -n 2 ");
  EXPECT_EQ(launch_words(1), "") << "a shell within an allocation";
}

TEST_F(Launcher, OfASingleProcessMakesNoRanks) {
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_FALSE(started_by_launcher());
}

TEST_F(Launcher, OfTasksThatMpiDoesNotJoinIsNamed) {
  using ::testing::HasSubstr;
  const std::string slurm = why_not_alone_with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_THAT(slurm,
              HasSubstr("Slurm's srun started this process as one of 2 tasks (SLURM_STEP_NUM_TASKS=2)"));
  EXPECT_THAT(slurm, HasSubstr("--mpi=pmix"));
  EXPECT_THAT(why_not_alone_with({{"RANK", "0"}, {"WORLD_SIZE", "8"}}), HasSubstr("torchrun"));
  EXPECT_THAT(why_not_alone_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}), HasSubstr("PMI_SIZE=3"));
  EXPECT_THAT(why_not_alone_with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("mpirun started"));
  // torchrun in a step of one task.
  EXPECT_THAT(why_not_alone_with(
                  {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("torchrun"));
}

TEST_F(Launcher, OfOneProcessLeavesItAlone) {
  EXPECT_EQ(why_not_alone_with({}), "");
  // The script of sbatch -n 8, and a shell in an allocation.
  EXPECT_EQ(why_not_alone_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), "");
  EXPECT_EQ(why_not_alone_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
            "");
  EXPECT_EQ(why_not_alone_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(why_not_alone_with({{"WORLD_SIZE", "8"}}), "");
  // mpirun -n 1 in a step of daemons.
  EXPECT_EQ(why_not_alone_with({{"OMPI_COMM_WORLD_RANK", "0"},
                                {"OMPI_COMM_WORLD_SIZE", "1"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "4"}}),
            "");
}

TEST(ProcessAsARank, IsCalledByItsRankAndHost) {
  std::ifstream file("/proc/sys/kernel/hostname");
  std::string host;
  ASSERT_TRUE(file >> host);
  EXPECT_EQ(name_as_rank(2), "rank 2 (" + host + ")");
}

}  // namespace
}  // namespace strata::test
