// What strata plan --search, --simulate and --trace print and write, and runs whose layout plan.search chose.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/cli/workspace.h"
#include "tests/support/read_trace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

class Search : public Workspace {
 protected:
  /// run.yaml with nothing said of its layout, and the budgets unlimited.
  Search() {
    std::string text = run_file() + "checkpoint: none\n";
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace(" microbatch: 2,", "");
    replace("memory: {device: 512KiB, host: 64MiB}", "memory: {device: unlimited, host: 64MiB}");
    write("open.yaml", text);
    write("auto.yaml", text + "plan: {search: auto}\n");
  }
};

TEST_F(Search, PrintsTheBestLayoutsAndWhyOthersAreSlower) {
  const Outcome outcome = strata({"plan", "open.yaml", "--search", "--ranks", "2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("tokens/s"), HasSubstr("layouts"), HasSubstr("were planned"),
                                 HasSubstr("take it with --set train.microbatch=")));
  const nlohmann::json found = report({"plan", "open.yaml", "--search", "--ranks", "2"});
  EXPECT_THAT(keys_of(found), UnorderedElementsAreArray({"best", "layouts", "counts"}));
  EXPECT_EQ(found["layouts"][0], found["best"]);
  EXPECT_EQ(found["counts"]["planned"], found["layouts"].size());
  EXPECT_EQ(found["best"]["why_slower"], "");
  ASSERT_GT(found["layouts"].size(), 1U);
  EXPECT_GT(1.01 * found["layouts"][1]["step_seconds"].get<double>(), found["best"]["step_seconds"]);
  for (const nlohmann::json& layout : found["layouts"])
    EXPECT_GE(layout["step_seconds"].get<double>(), 0.999 * layout["bound_seconds"].get<double>())
        << layout["layout"];
}

TEST_F(Search, TakesAsLongAsPlannedWithWhatItFound) {
  const nlohmann::json best = report({"plan", "open.yaml", "--search", "--ranks", "2"})["best"];
  Arguments arguments = {"plan", "open.yaml", "--simulate", "--ranks", "2"};
  for (const std::string setting : best["settings"]) arguments.insert(arguments.end(), {"--set", setting});
  const nlohmann::json simulated = report(arguments)["simulated"];
  EXPECT_NEAR(simulated["step_seconds"], best["step_seconds"], 1e-9);
}

TEST_F(Search, LeavesWhatTheRunFileGives) {
  const nlohmann::json found = report({"plan", "open.yaml", "--search", "--ranks", "2", "--set",
                                       "parallel.pipeline=2", "--set", "train.microbatch=1"});
  for (const nlohmann::json& layout : found["layouts"]) {
    EXPECT_THAT(layout["layout"].get<std::string>(), HasSubstr("pipeline 2"));
    EXPECT_THAT(layout["settings"].get<std::vector<std::string>>(),
                Each(AllOf(Not(HasSubstr("parallel.pipeline=")), Not(HasSubstr("train.microbatch=")))));
  }
}

TEST_F(Search, OfBudgetsThatHoldNoLayoutNamesOnesThatDo) {
  const Outcome outcome = strata({"plan", "open.yaml", "--search", "--set", "memory.device=16KiB"});
  expect_sentence(outcome, 2,
                  {"plan.search: none of the layouts tried can be planned", "memory.device",
                   "the smallest that works is"});
}

TEST_F(Search, ChoosesTheLayoutOfARunWhichKeepsItWhileItLeavesTheSameOpen) {
  const auto run = [&](int steps, Arguments overrides, const Arguments& more = {}) {
    overrides.insert(overrides.end(), {"checkpoint.path=out", fmt::format("train.steps={}", steps)});
    Arguments arguments = train("auto.yaml", overrides);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  const std::string chosen = "which plan.search auto chose: of ",
                    kept = "which plan.search auto chose: the run resumes";
  EXPECT_THAT(run(2, {}), HasSubstr(chosen));
  EXPECT_THAT(run(4, {}), HasSubstr(kept));
  EXPECT_THAT(run(6, {"train.microbatch=1"}), HasSubstr(chosen)) << "less is left open";
  EXPECT_THAT(run(8, {"train.microbatch=1"}), HasSubstr(kept));
  EXPECT_THAT(run(2, {"train.microbatch=1"}, {"--fresh"}), HasSubstr(chosen));
}

TEST_F(Search, OfRanksIsTheFirstRanks) {
  Arguments arguments =
      train("auto.yaml", {"train.precision=fp32", "train.threads=1", "checkpoint.path=out"});
  const Outcome outcome = strata_on_ranks(2, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("which plan.search auto chose"));
  arguments.insert(arguments.end(), {"--set", "train.steps=8"});
  EXPECT_THAT(strata(arguments).err, HasSubstr("which plan.search auto chose: of "))
      << "of another number of ranks";
}

TEST_F(Search, OfRanksThatLeaveOtherKeysOpenIsRefused) {
  const Arguments given = train("auto.yaml", {"train.microbatch=1"}), open = train("auto.yaml");
  const Outcome keys = strata_on_ranks({open, given});
  EXPECT_NE(keys.status, 0);
  EXPECT_THAT(keys.err, AllOf(HasSubstr("what plan.search is to choose"), HasSubstr("the same run file")));
  const Outcome search = strata_on_ranks({open, train("open.yaml", {"train.microbatch=1"})});
  EXPECT_NE(search.status, 0);
  EXPECT_THAT(search.err, HasSubstr("the same run file"));
}

TEST_F(Search, OfSeveralModelsIsRefused) {
  write("sweep.yaml", "sweep: {optimizer.lr: [1e-3, 1e-2]}\n" + run_file() + "plan: {search: auto}\n");
  expect_sentence(strata({"plan", "sweep.yaml"}), 2, {"plan.search"});
}

TEST_F(Search, SimulatesAStepAndSaysWhatMoreWouldSave) {
  const Outcome outcome = strata({"plan", "run.yaml", "--simulate"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("step  "), HasSubstr("limit  "), HasSubstr("idle  "),
                                 HasSubstr("memory.device"), HasSubstr("saves")));
  const nlohmann::json simulated = report({"plan", "run.yaml", "--simulate"})["simulated"];
  EXPECT_THAT(keys_of(simulated), UnorderedElementsAreArray({"step_seconds", "tokens_per_second",
                                                             "bottleneck", "idle", "ranks", "more"}));
  for (const auto& [lane, idle] : simulated["idle"].items()) {
    EXPECT_GE(idle, 0) << lane;
    EXPECT_LE(idle, 1) << lane;
  }
  EXPECT_EQ(simulated["tokens_per_second"], 4 * 24 / simulated["step_seconds"].get<double>());
  const nlohmann::json explained = report({"explain", "run.yaml"});
  EXPECT_NEAR(simulated["step_seconds"], explained["now"]["step_seconds"], 1e-9);
}

TEST_F(Search, WritesThePlannedTimeline) {
  ASSERT_EQ(strata({"plan", "run.yaml", "--trace", "planned.pftrace"}).status, 0);
  const ReadTrace trace = ReadTrace(read_file(path("planned.pftrace")));
  std::size_t lanes = 0;
  for (const auto& [track, events] : trace.slices) {
    const auto thread = trace.threads.find(track);
    if (thread != trace.threads.end() && (thread->second == "compute" || thread->second == "h2d")) ++lanes;
  }
  EXPECT_EQ(lanes, 2U);
  expect_sentence(strata({"plan", "run.yaml", "--trace", "missing/planned.pftrace"}), 2,
                  {"--trace", "missing/planned.pftrace"});
}

}  // namespace
}  // namespace strata::test
