// What strata explain says of a run, and what it writes.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Explain : public Workspace {
 protected:
  /// Its words; it must succeed, and its figures go to explained.json.
  std::string explain(Arguments arguments) const {
    arguments.insert(arguments.begin(), "explain");
    arguments.insert(arguments.end(), {"--json", "explained.json"});
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }
  nlohmann::json figures() const { return nlohmann::json::parse(std::ifstream(path("explained.json"))); }
  nlohmann::json planned(Arguments arguments) const {
    arguments.insert(arguments.begin(), "plan");
    arguments.insert(arguments.end(), {"--json", "-"});
    return nlohmann::json::parse(strata(arguments).out);
  }
};

/// Computing and a link so slow that copies cost time.
const Arguments kSlow = {"--set", "device.flops=1e9",     "--set", "device.link={h2d: 5MB/s, d2h: 5MB/s}",
                         "--set", "memory.device=160KiB", "--set", "memory.host=64MiB"};

Arguments with(const Arguments& first, const Arguments& more) {
  Arguments all = first;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Invariant (Explain.*): A predicted change is a plan.
TEST_F(Explain, SaysWhatLivesWhereWhatBoundsTheStepAndWhatWouldHelp) {
  const std::string words = explain(with({"run.yaml"}, kSlow));
  for (const char* part : {"The step\n  A step is planned to take ", "No plan of this run takes less than ",
                           "What lives where\n", "The device holds ", "Parameters: ",
                           " on the host, since the device's 160.00 KiB have no room for more of it",
                           "The optimizer's state: ", "What lanes do\n", "compute works ",
                           "What would help most\n  1. ", "changes were."})
    EXPECT_THAT(words, HasSubstr(part));
}

TEST_F(Explain, PredictsForAChangeWhatExplainSaysOfTheChangedRun) {
  explain(with({"run.yaml"}, kSlow));
  const nlohmann::json first = figures();
  ASSERT_TRUE(first.at("fits"));
  ASSERT_FALSE(first.at("changes").empty());
  for (const nlohmann::json& change : first["changes"]) {
    if (change.contains("link") || change.contains("drive")) continue;
    Arguments changed = with({"run.yaml"}, kSlow);
    for (const std::string setting : change["settings"]) changed.insert(changed.end(), {"--set", setting});
    const nlohmann::json plan = planned(changed);
    for (const std::string tier : {"device", "host"})
      EXPECT_EQ(change["peak_bytes"][tier], plan["memory"][tier]["planned_peak_bytes"]) << change;
    explain(changed);
    EXPECT_EQ(change["step_seconds"], figures()["now"]["step_seconds"]) << change;
    EXPECT_EQ(change["tokens_per_second"], figures()["now"]["tokens_per_second"]) << change;
  }
}

/// The page of a profile, the plan and the explanation grade a step by one bound.
TEST_F(Explain, HasTheStepAndTheBoundOfThePlanAndOfItsPage) {
  for (const Arguments& more : {Arguments(), Arguments{"--set", "parallel.pipeline=2"}}) {
    const Arguments run = with(with({"run.yaml"}, kSlow), more);
    explain(run);
    const nlohmann::json explained = figures(), plan = planned(with(run, {"--profile", "profile"}));
    const nlohmann::json page =
        nlohmann::json::parse(std::ifstream(path("profile/summary.json")))["planned"][0];
    EXPECT_EQ(page["bound"]["seconds"], explained["certificate"]["bound_seconds"]);
    EXPECT_EQ(page["bound"]["by"], explained["certificate"]["by"]);
    EXPECT_EQ(page["seconds"], explained["now"]["step_seconds"]);
    EXPECT_EQ(plan["certificate"], explained["certificate"]);
    EXPECT_GE(page["seconds"], page["bound"]["seconds"]);
  }
}

TEST_F(Explain, HasThePeaksAndBytesOfThePlan) {
  explain(with({"run.yaml"}, kSlow));
  const nlohmann::json plan = planned(with({"run.yaml"}, kSlow)), explained = figures();
  EXPECT_EQ(explained["now"]["peak_bytes"]["device"], plan["memory"]["device"]["planned_peak_bytes"]);
  std::int64_t moved = 0;
  for (const auto& [kind, use] : explained["ranks"][0]["lives"].items())
    moved += use["moved_bytes"]["h2d"].get<std::int64_t>();
  EXPECT_GT(moved, 0);
  EXPECT_EQ(moved, plan["traffic"]["h2d"]["planned_bytes"]);
}

TEST_F(Explain, OfABudgetThatIsTooSmallSaysWhatMakesItFitAndEndsAsPlanDoes) {
  const Arguments small = {"run.yaml", "--set", "memory.device=16KiB", "--set", "memory.host=64MiB"};
  const Outcome refused = strata(with({"plan"}, small));
  const Outcome outcome = strata(with(with({"explain"}, small), {"--json", "explained.json"}));
  EXPECT_EQ(outcome.status, 2);
  const std::string sentence = outcome.err.substr(0, outcome.err.find('\n'));
  EXPECT_EQ(refused.err, sentence + "; " STRATA_PROGRAM
                                    " explain run.yaml --set 'memory.device=16KiB' --set "
                                    "'memory.host=64MiB' says what else would help\n");
  EXPECT_THAT(outcome.err, HasSubstr("the smallest that works"));
  EXPECT_THAT(outcome.out, HasSubstr("This run does not fit\n"));
  EXPECT_THAT(outcome.out, HasSubstr("What would make it fit\n  1. --set "));
  const nlohmann::json explained = figures();
  EXPECT_FALSE(explained.at("fits"));
  ASSERT_FALSE(explained.at("changes").empty());
  for (const nlohmann::json& change : explained["changes"]) {
    Arguments changed = with({"plan"}, small);
    for (const std::string setting : change["settings"]) changed.insert(changed.end(), {"--set", setting});
    EXPECT_EQ(strata(changed).status, 0) << change;
  }
}

TEST_F(Explain, OfStagesSaysWhatEachRankDoes) {
  const std::string words = explain(
      with({"run.yaml", "--set", "parallel.pipeline=2", "--set", "parallel.data=2", "--set", "train.batch=8"},
           kSlow));
  EXPECT_THAT(words, HasSubstr("What lives where, rank 0\n"));
  EXPECT_THAT(words, HasSubstr("What lanes do, rank 1\n"));
  EXPECT_EQ(figures()["ranks"].size(), 2U);
}

TEST_F(Explain, OfSeveralModelsExplainsTheirRound) {
  write("sweep.yaml", run_file() + "sweep: {optimizer.lr: [1e-3, 1e-2]}\n");
  const std::string words = explain(with({"sweep.yaml"}, kSlow));
  EXPECT_THAT(words, HasSubstr("A round of all models is planned to take "));
  const std::int64_t tokens = figures()["now"]["tokens_per_step"];
  explain(with({"run.yaml"}, kSlow));
  EXPECT_EQ(tokens, 2 * figures()["now"]["tokens_per_step"].get<std::int64_t>());
}

TEST_F(Explain, OfARunThatIsAllOnTheDeviceSaysSo) {
  const std::string words =
      explain({"run.yaml", "--set", "memory.device=64MiB", "--set", "memory.host=64MiB"});
  EXPECT_THAT(words, HasSubstr("on the device, since the device has room for all of it"));
  EXPECT_THAT(words, Not(HasSubstr("--set memory.")));
}

TEST_F(Explain, RefusesWhatPlanRefuses) {
  expect_sentence(strata({"explain", "nowhere.yaml"}), 2, {"nowhere.yaml", "No such file"});
  expect_sentence(strata({"explain", "run.yaml", "--set", "train.batch=0"}), 2, {"train.batch"});
  expect_sentence(strata({"explain", "run.yaml", "--json", "missing/folder.json"}), 2, {"--json"});
}

}  // namespace
}  // namespace strata::test
