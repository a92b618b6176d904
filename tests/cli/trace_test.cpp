// report.trace: chosen steps of a run as it goes on.
#include <gmock/gmock.h>

#include "base/file.h"
#include "tests/cli/workspace.h"
#include "tests/support/read_trace.h"

namespace strata::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class TracesOfRuns : public Workspace {
 protected:
  ReadTrace read(const std::string& name) const { return ReadTrace(read_file(path(name))); }
  static Arguments traced(const std::string& steps, Arguments overrides = {}) {
    overrides.insert(overrides.end(), {"report.trace.path=out/t.pftrace", "report.trace.steps=" + steps});
    return train("run.yaml", overrides);
  }
};

TEST_F(TracesOfRuns, HaveTheChosenStepsOnAllLanesAndChangeNoBit) {
  for (const std::string lanes : {"overlapped", "serial"}) {
    const Arguments overrides = {"memory.device=128KiB", "train.validate_every=2",
                                 "train.validation_batches=1", "plan.lanes=" + lanes};
    EXPECT_EQ(state_hash(traced("[2, 4-5]", overrides)), state_hash(train("run.yaml", overrides)));
    const ReadTrace trace = read("out/t.pftrace");
    EXPECT_THAT(trace.names_on("steps"), ElementsAre("step 2", "step 4", "step 5"));
    std::map<std::string, std::map<std::int64_t, int>> slices;  // by thread and step
    for (const auto& [track, events] : trace.slices) {
      if (!trace.threads.contains(track)) continue;
      for (const auto& event : events)
        if (event.begins) ++slices[trace.threads.at(track)][event.numbers.at("step")];
    }
    for (const std::string lane : {"data", "h2d", "d2h", "compute", "cpu"}) {
      ASSERT_EQ(slices[lane].size(), 3U) << lane;
      EXPECT_EQ(slices[lane][2], slices[lane][5]) << lane;
    }
    std::filesystem::remove(path("out/t.pftrace"));
  }
}

TEST_F(TracesOfRuns, ThatGoOnHaveTheStepsOfBoth) {
  const Arguments saved = {"checkpoint.path=out", "train.steps=3"};
  ASSERT_EQ(strata(traced("[2, 5]", saved)).status, 0);
  ASSERT_EQ(strata(traced("[2, 5]", {"checkpoint.path=out"})).status, 0);
  EXPECT_THAT(read("out/t.pftrace").names_on("steps"), ElementsAre("step 2", "step 5"));
}

TEST_F(TracesOfRuns, OfSeveralModelsHaveTheStepsOfEach) {
  write("sweep.yaml", run_file() +
                          "sweep: {train.seed: [3, 4]}\n"
                          "report: {trace: {path: t.pftrace, steps: 2}}\n");
  const Outcome outcome = strata(train("sweep.yaml"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const ReadTrace trace = read("t.pftrace");
  EXPECT_THAT(trace.names_on("steps of seed=3"), ElementsAre("step 2"));
  EXPECT_THAT(trace.names_on("steps of seed=4"), ElementsAre("step 2"));
  write("own.yaml", run_file() + "models: [{report.trace.path: a}, {}]\n");
  expect_sentence(strata(train("own.yaml")), 2, {"report.trace.path is the run's"});
}

TEST_F(TracesOfRuns, OfRanksAreAFileOfEach) {
  const Outcome outcome = strata_on_ranks(2, traced("2", {"train.threads=1"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const ReadTrace first = read("out/t.pftrace"), second = read("out/t.rank-1.pftrace");
  EXPECT_THAT(first.processes, ElementsAre(Pair(::testing::_, "rank 0")));
  EXPECT_THAT(second.processes, ElementsAre(Pair(::testing::_, "rank 1")));
  for (const auto& [track, events] : second.slices) EXPECT_FALSE(first.slices.contains(track));
  EXPECT_THAT(second.names_on("steps"), ElementsAre("step 2"));
}

TEST_F(TracesOfRuns, NeedAFileAndSteps) {
  expect_sentence(strata(train("run.yaml", {"report.trace.path=t"})), 2,
                  {"report.trace.path: needs report.trace.steps"});
  expect_sentence(strata(train("run.yaml", {"report.trace.steps=3"})), 2,
                  {"report.trace.steps: is of no effect"});
  expect_sentence(strata(traced("[3, 2]")), 2, {"report.trace.steps: must be positive and rise, not [3, 2]"});
  expect_sentence(strata(traced("[0-2]")), 2, {"must be positive and rise"});
  expect_sentence(strata(traced("3-x")), 2, {"expected a step such as 3 or a range such as 100-102"});
  write("notes.txt", "not a trace");
  expect_sentence(strata(train("run.yaml", {"report.trace.path=notes.txt", "report.trace.steps=3"})), 2,
                  {"notes.txt is not empty and no trace of Strata's"});
}

}  // namespace
}  // namespace strata::test
