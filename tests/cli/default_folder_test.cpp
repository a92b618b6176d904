// Where a run saves that says nothing of it, and whose checkpoints it finds there.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class DefaultFolder : public Workspace {
 protected:
  DefaultFolder() {
    fs::create_directory(path("mine"));
    fs::create_directory(path("other"));
    for (const std::string folder : {"mine", "other"}) {
      write(folder + "/run.yaml", run_file());
      write(folder + "/sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
    }
  }
  static Arguments fresh(Arguments arguments) {
    arguments.emplace_back("--fresh");
    return arguments;
  }
  bool has_checkpoint(const std::string& name) const { return fs::exists(path(name) / "manifest.json"); }
};

TEST_F(DefaultFolder, HasTheModelThatARunWithoutAPathHasTrained) {
  const Outcome trained = strata(train("mine/run.yaml"));
  EXPECT_EQ(trained.status, 0);
  EXPECT_THAT(trained.err, HasSubstr("saves    to out/run, at the end, every 30 minutes\n"));
  EXPECT_THAT(trained.err, HasSubstr("the model is in out/run/step-00000006\n"));
  EXPECT_TRUE(has_checkpoint("out/run/step-00000006"));
  EXPECT_EQ(strata({"export", "mine/run.yaml", "model"}).status, 0);
  const Outcome again = strata(train("mine/run.yaml"));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err,
              HasSubstr("the run has all its 6 steps; raise train.steps to train on, or start over "
                        "with --fresh\nthe model is in out/run/"));
  fs::create_directory(path("elsewhere"));
  fs::rename(path("out"), path("elsewhere/out"));
  fs::rename(path("mine"), path("elsewhere/mine"));
  fs::copy(path("corpus.txt"), path("elsewhere/corpus.txt"));
  const Outcome moved = strata(train("mine/run.yaml", {"train.steps=7"}), {.folder = path("elsewhere")});
  EXPECT_EQ(moved.status, 0) << "a run file and its folder move together\n" << moved.err;
}

/// The run, its dump and its resume may each start in a folder of their own.
TEST_F(DefaultFolder, IsNotNeededByARunFileWhosePathsBeginBesideIt) {
  const std::string runs = path("mine [1]"), elsewhere = path("elsewhere");
  for (const std::string& folder : {runs, elsewhere}) fs::create_directory(folder);
  fs::copy(path("corpus.txt"), runs + "/a.txt");
  const Arguments beside = {"data.path=${RUN_FILE_DIR}/*.txt", "checkpoint.path=${RUN_FILE_DIR}/out"};
  write("mine [1]/run.yaml", run_file());
  Arguments dump = train("mine [1]/run.yaml", beside);
  dump.emplace_back("--dump-config");
  write("elsewhere/dump.yaml", strata(dump).out);
  EXPECT_EQ(strata(train("dump.yaml", {"train.steps=2"}), {.folder = elsewhere}).status, 0);
  EXPECT_TRUE(has_checkpoint("mine [1]/out/step-00000002"));
  const Outcome resumed = strata(train("../mine [1]/run.yaml", beside), {.folder = elsewhere});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming from " + runs + "/out/step-00000002"));
  EXPECT_TRUE(has_checkpoint("mine [1]/out/step-00000006"));
}

TEST_F(DefaultFolder, IsRefusedToAnotherRunFileUntilThatBeginsAnew) {
  ASSERT_EQ(strata(train("mine/run.yaml")).status, 0);
  const std::string mine = path("mine/run.yaml"), other = path("other/run.yaml");
  expect_sentence(strata(train("other/run.yaml")), 2, {"out/run", mine, "not of " + other, "--fresh"});
  expect_sentence(strata({"export", "other/run.yaml", "model"}), 2, {"out/run", mine, other});
  EXPECT_EQ(strata(train("other/run.yaml", {"checkpoint.path=out/mine"})).status, 0);
  const Outcome anew = strata(fresh(train("other/run.yaml")));
  EXPECT_EQ(anew.status, 0);
  EXPECT_THAT(anew.err,
              HasSubstr("what was trained before, up to step-00000006, is kept in out/run/set-aside"));
  EXPECT_TRUE(has_checkpoint("out/run/set-aside/step-00000006")) << "nothing is lost";
  expect_sentence(strata(train("mine/run.yaml")), 2, {"not of " + mine});
  EXPECT_EQ(strata(train("other/run.yaml", {"train.steps=7"})).status, 0);
}

TEST_F(DefaultFolder, IsThatOfASweepToo) {
  const Outcome swept = strata(train("mine/sweep.yaml"));
  EXPECT_EQ(swept.status, 0);
  EXPECT_THAT(swept.err, HasSubstr("the models are in out/sweep, each in the folder of its name"));
  EXPECT_TRUE(has_checkpoint("out/sweep/seed=3/step-00000006"));
  expect_sentence(strata(train("other/sweep.yaml")), 2,
                  {"out/sweep", path("mine/sweep.yaml"), path("other/sweep.yaml")});
  fs::remove(path("out/sweep/run.json"));
  expect_sentence(strata(train("other/sweep.yaml")), 2, {"out/sweep/seed=3", path("mine/sweep.yaml")});
  EXPECT_EQ(strata(fresh(train("other/sweep.yaml"))).status, 0);
  EXPECT_TRUE(has_checkpoint("out/sweep/seed=4/set-aside/step-00000006"));
}

TEST_F(DefaultFolder, IsNotMadeWithNone) {
  for (const std::string file : {"mine/run.yaml", "mine/sweep.yaml"}) {
    const Outcome outcome = strata(train(file, {"checkpoint=none"}));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err,
                HasSubstr("saves    nothing: checkpoint.path is none, so the model is lost at the end\n"));
    EXPECT_THAT(outcome.err, HasSubstr("\nnothing was saved: checkpoint.path is none"));
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace strata::test
