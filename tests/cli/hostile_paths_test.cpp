// Links, pipes and files where a command makes something of its own are refused in one sentence, and what
// they lead to stays as it is. Links that the user named are followed.
#include <gmock/gmock.h>

#include "tests/base/hostile.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

using HostilePaths = Workspace;

TEST_F(HostilePaths, ADoctorTouchesNothingThatASpillFolderLeadsTo) {
  for (const Trap& trap : {link_traps()[0], link_traps()[2]}) {
    const Victim victim;
    trap.set(path("strata-spill"), victim);
    const Outcome outcome = strata({"doctor", "--drive", "."});
    EXPECT_EQ(outcome.status, 1) << trap.name;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("bad  speed"), HasSubstr("./strata-spill: it is a symbolic link")))
        << trap.name;
    victim.expect_untouched(trap.name);
    fs::remove(path("strata-spill"));
  }
}

TEST_F(HostilePaths, ARunOnALinkedSpillFolderIsRefused) {
  const Victim victim;
  fs::create_symlink(victim.path(), path("strata-spill"));
  expect_sentence(strata(train("run.yaml", {"memory.nvme.path=.", "memory.placement.optimizer_state=nvme"})),
                  2,
                  {"the NVMe folder . cannot be used", "./strata-spill: it is a symbolic link", "remove it"});
  victim.expect_untouched("a link to a folder");
}

TEST_F(HostilePaths, LinksThatTheUserNamedAreFollowed) {
  for (const char* name : {"checkpoints", "scratch"}) fs::create_directory(path(name));
  fs::create_symlink("checkpoints", path("to-checkpoints"));
  fs::create_symlink("scratch", path("to-scratch"));
  fs::create_symlink("report.json", path("to-report"));
  write("metrics.jsonl", "of an earlier run\n");
  fs::create_symlink("metrics.jsonl", path("to-metrics"));
  Arguments arguments =
      train("run.yaml", {"checkpoint.path=to-checkpoints", "memory.nvme.path=to-scratch",
                         "memory.placement.optimizer_state=nvme", "report.metrics=to-metrics"});
  arguments.insert(arguments.end(), {"--json", "to-report"});
  const Outcome outcome = strata(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(path("checkpoints") / "step-00000006" / "manifest.json"));
  EXPECT_TRUE(fs::is_empty(path("scratch")));
  EXPECT_THAT(read_file(path("report.json")), HasSubstr("state_hash"));
  EXPECT_THAT(read_file(path("metrics.jsonl")),
              AllOf(HasSubstr("of an earlier run"), HasSubstr("\"step\":6")));
  for (const char* name : {"to-checkpoints", "to-scratch", "to-report", "to-metrics"})
    EXPECT_TRUE(fs::is_symlink(path(name))) << name;
}

}  // namespace
}  // namespace strata::test
