// strata doctor: a line for everything that it looks at, and rates that the planner takes.
#include <gmock/gmock.h>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Doctor = Workspace;

TEST_F(Doctor, LooksAtEverythingAndWritesRatesThatAPlanIsMadeBy) {
  const Outcome outcome = strata({"doctor", "--drive", ".", "--profile", "machine.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("kernel"), HasSubstr("memlock"), HasSubstr("huge pages"), HasSubstr("CUDA"),
                    HasSubstr("DRAM"), HasSubstr("device"), HasSubstr("drive"), HasSubstr("x 16")));
  EXPECT_FALSE(std::filesystem::exists(path("strata-spill")));
  const Outcome plan = strata({"plan", "run.yaml", "--set", "plan.machine=machine.json"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("s per step by"));
}

TEST_F(Doctor, EndsWithAnErrorWhereADriveCannotBeUsed) {
  const Outcome outcome = strata({"doctor", "--drive", "missing"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("bad  drive"));
}

TEST_F(Doctor, ProfilesThatAreNoneAreRefusedByThePlan) {
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=missing.json"}), 2,
                  {"plan.machine: cannot read missing.json", "strata doctor --profile writes one"});
  write("other.json", "{}");
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"other.json is no machine profile"});
  nlohmann::json profile = {{"flops_per_second", 1e12},         {"memory_bytes_per_second", 1e10},
                            {"h2d_bytes_per_second", 1e10},     {"d2h_bytes_per_second", 0},
                            {"nvme_read_bytes_per_second", 0},  {"nvme_write_bytes_per_second", 0},
                            {"cores_copy", true}};
  write("other.json", profile.dump());
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"other.json is no machine profile: d2h_bytes_per_second is 0"});
  write("other.json", "{\"flops_per_second\": 1,\n}");
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"plan.machine: other.json:2:1: this is not valid JSON"});
}

}  // namespace
}  // namespace strata::test
