// Limits of the system: whatever a user may not have ends in a sentence that names the limit, never in a
// signal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cli/workspace.h"
#include "tests/support/sanitizers.h"

namespace strata::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Limits : public Workspace {
 protected:
  /// A command of the shell, then the program.
  Outcome train_under(const std::string& limit, const std::string& before = "") const {
    const std::string command = fmt::format("{}; exec {} {} train run.yaml", limit, before, STRATA_PROGRAM);
    return Process("/bin/bash", {"-c", command}, {.folder = path(".")}).wait();
  }
};

/// Nothing limits root's processes, so root runs the program as a user that nobody is.
TEST_F(Limits, OfProcessesEndInASentence) {
  std::string as_user;
  if (::geteuid() == 0) {
    const int user = 1'000'000 + static_cast<int>(::getpid());
    as_user = fmt::format("setpriv --reuid={0} --regid={0} --clear-groups", user);
    ASSERT_EQ(::chmod(path(".").c_str(), 0777), 0);
  }
  for (const int processes : {2, 5, 8, 11}) {
    const Outcome outcome = train_under(fmt::format("ulimit -u {}", processes), as_user);
    if (outcome.status == 0) continue;
    expect_sentence(outcome, 1,
                    {"a thread cannot be started", fmt::format("(ulimit -u) is {}", processes), "pids.max"});
  }
}

TEST_F(Limits, OfTheStackIsRaisedOrSaid) {
  const Outcome outcome = train_under("ulimit -s 128");
  if (outcome.status == 0) return;  // root may raise it
  expect_sentence(outcome, 2, {"the stack may have only 128 KiB (ulimit -s)"});
}

TEST_F(Limits, OfMemoryThatCannotBeMappedEndsInASentence) {
  if (kShadowedMemory) GTEST_SKIP() << "shadows of memory take more addresses than any of these limits";
  // Libraries alone take most of it: how much depends on the machine.
  for (int mebibytes = 800; mebibytes <= 1'400; mebibytes += mebibytes < 1'000 ? 20 : 200) {
    const Outcome outcome = train_under(fmt::format("ulimit -v {}", mebibytes * 1024));
    if (outcome.status == 127) continue;  // the loader's own sentence
    if (outcome.status != 0) expect_sentence(outcome, outcome.status, {});
    EXPECT_THAT(outcome.status, AnyOf(0, 1, 2)) << mebibytes << " MiB: " << outcome.err;
  }
}

}  // namespace
}  // namespace strata::test
