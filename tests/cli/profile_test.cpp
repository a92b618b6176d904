// The folders that plan and train write profiles to.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

class Profiles : public Workspace {
 protected:
  nlohmann::json summary(const std::string& folder) const {
    return nlohmann::json::parse(std::ifstream(path(folder) / "summary.json"));
  }
  static Arguments profiled(Arguments arguments, const std::string& folder) {
    arguments.insert(arguments.end(), {"--profile", folder});
    return arguments;
  }
  bool is_there(const std::string& name) const { return std::filesystem::file_size(path(name)) > 0; }
};

TEST_F(Profiles, OfAPlanHaveItsPeaksAndBytes) {
  for (int time = 0; time < 2; ++time) {  // the second replaces the first
    const Outcome outcome = strata({"plan", "run.yaml", "--profile", "profile", "--json", "plan.json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  const nlohmann::json planned = summary("profile").at("planned").at(0);
  const nlohmann::json plan = nlohmann::json::parse(std::ifstream(path("plan.json")));
  for (const std::string tier : {"device", "host"})
    EXPECT_EQ(planned["memory"][tier]["peak_bytes"], plan["memory"][tier]["planned_peak_bytes"]);
  EXPECT_EQ(planned["traffic"]["h2d"], plan["traffic"]["h2d"]["planned_bytes"]);
  EXPECT_TRUE(summary("profile").at("measured").empty());
  EXPECT_TRUE(is_there("profile/report.html"));
  EXPECT_TRUE(is_there("profile/trace.pftrace"));
  EXPECT_TRUE(is_there("profile/memory_view.pickle"));
}

TEST_F(Profiles, OfARunHaveWhatWasMeasuredToo) {
  const nlohmann::json trained = report(train("run.yaml"));
  const nlohmann::json profiled = report(Profiles::profiled(train("run.yaml"), "profile"));
  EXPECT_EQ(profiled["state_hash"], trained["state_hash"]);
  const nlohmann::json measured = summary("profile").at("measured").at(0),
                       planned = summary("profile").at("planned").at(0);
  EXPECT_EQ(measured["seconds"], profiled["step_seconds"][2]);
  EXPECT_EQ(measured["traffic"], planned["traffic"]);
  for (const auto& [lane, figures] : planned["lanes"].items()) {
    EXPECT_EQ(measured["lanes"][lane]["slices"], figures["slices"]) << lane;
    EXPECT_GT(measured["lanes"][lane]["busy_seconds"], 0) << lane;
  }
}

TEST_F(Profiles, OfStagesAndOfSeveralModelsHaveOneForEachThatDiffers) {
  ASSERT_EQ(strata({"plan", "run.yaml", "--profile", "stages", "--set", "parallel.pipeline=2"}).status, 0);
  EXPECT_EQ(summary("stages").at("planned").size(), 2U);
  EXPECT_EQ(summary("stages")["planned"][1]["name"], "rank 1");
  EXPECT_TRUE(is_there("stages/memory_view-1.pickle"));
  write("sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
  ASSERT_EQ(strata({"plan", "sweep.yaml", "--profile", "models"}).status, 0);
  EXPECT_EQ(summary("models").at("planned").size(), 1U);
}

TEST_F(Profiles, OfACommandOfTheirOwnLeaveNothingElseBehind) {
  write("own.yaml", run_file() + "checkpoint: {path: saved, every: 1}\nreport: {metrics: metrics.jsonl}\n");
  const Outcome outcome = strata({"profile", "own.yaml", "--out", "profile", "--steps", "3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("profile/report.html; open it in a browser"));
  EXPECT_EQ(summary("profile").at("run"), "own.yaml");
  EXPECT_EQ(summary("profile").at("measured").size(), 1U);
  EXPECT_GT(summary("profile")["measured"][0]["bound"]["seconds"], 0);
  EXPECT_EQ(summary("profile")["measured"][0]["memory"]["device"]["budget_bytes"], 512 * 1024);
  EXPECT_TRUE(is_there("profile/report.html"));
  EXPECT_FALSE(std::filesystem::exists(path("saved")));
  EXPECT_FALSE(std::filesystem::exists(path("metrics.jsonl")));
}

/// What a run has saved is neither gone on from nor touched.
TEST_F(Profiles, OfACommandOfTheirOwnLeaveCheckpointsAlone) {
  write("own.yaml", run_file() + "checkpoint: {path: saved, every: 3}\n");
  report(train("own.yaml"));
  const auto files = [this] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path("saved")))
      times[entry.path()] = entry.last_write_time();
    return times;
  };
  const auto before = files();
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(strata({"profile", "own.yaml", "--out", "profile"}).status, 0);
  EXPECT_EQ(files(), before);
}

TEST_F(Profiles, OfACommandOfTheirOwnAreOfRanksAndOfSeveralModelsToo) {
  const Outcome ranks = strata_on_ranks(2, {"profile", "run.yaml", "--out", "ranks"});
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(summary("ranks").at("measured").size(), 1U);
  write("sweep.yaml", run_file() + R"(sweep: {train.seed: [3, 4]}
select: {rung_steps: [5], by: training}
checkpoint: {path: saved}
)");
  const Outcome models = strata({"profile", "sweep.yaml", "--out", "models"});
  EXPECT_EQ(models.status, 0) << models.err;
  EXPECT_EQ(summary("models").at("measured").size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(path("saved")));
}

TEST_F(Profiles, AreComparedOnOnePage) {
  ASSERT_EQ(strata({"plan", "run.yaml", "--profile", "a"}).status, 0);
  ASSERT_EQ(strata({"plan", "run.yaml", "--profile", "b", "--set", "train.recompute=full"}).status, 0);
  const Outcome outcome = strata({"profile", "--compare", "a", "b", "--out", "compared.html"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(is_there("compared.html"));
  expect_sentence(strata({"profile", "--compare", "a", "c"}), 2, {"c: has no summary.json"});
  write("b/summary.json", "[1");
  expect_sentence(strata({"profile", "--compare", "a", "b"}), 2, {"b/summary.json"});
  expect_sentence(strata({"profile", "--compare", "a", "a", "--out", "a"}), 2, {"--out: a is a folder"});
  EXPECT_EQ(strata({"profile", "--compare", "a"}).status, 2);
  EXPECT_EQ(strata({"profile", "run.yaml", "--compare", "a", "a"}).status, 2);
}

TEST_F(Profiles, OfACommandOfTheirOwnNeedARunFileAndAFolder) {
  expect_sentence(strata({"profile"}), 2, {"give a run file and --out"});
  expect_sentence(strata({"profile", "run.yaml"}), 2, {"--out: give the folder to write"});
  expect_sentence(strata({"profile", "run.yaml", "--out", "."}), 2, {"which is of no profile"});
  EXPECT_EQ(strata({"profile", "run.yaml", "--out", "p", "--steps", "0"}).status, 2);
}

TEST_F(Profiles, AreNotWrittenOverWhatIsNone) {
  write("notes.txt", "no profile");
  expect_sentence(strata({"plan", "run.yaml", "--profile", "notes.txt"}), 2, {"notes.txt: is no folder"});
  expect_sentence(strata({"plan", "run.yaml", "--profile", "."}), 2, {"which is of no profile"});
  expect_sentence(strata(profiled(train("run.yaml"), ".")), 2, {"which is of no profile"});
}

TEST_F(Profiles, AreRefusedBeforeTrainingWhereTheyCannotBeWritten) {
  const Outcome outcome = strata(profiled(train("run.yaml"), "corpus.txt/profile"));
  expect_sentence(outcome, 2, {"corpus.txt/profile", "give another folder"});
  EXPECT_THAT(outcome.out, ::testing::Not(::testing::HasSubstr("state hash")));
}

TEST_F(Profiles, FollowALinkThatTheUserNames) {
  std::filesystem::create_directory(path("there"));
  std::filesystem::create_directory_symlink("there", path("link"));
  ASSERT_EQ(strata(profiled(train("run.yaml"), "link")).status, 0);
  EXPECT_TRUE(is_there("there/summary.json"));
}

TEST_F(Profiles, SayThatThereWasNothingToTrain) {
  write("sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
  for (const std::string run : {"run.yaml", "sweep.yaml"}) {
    const Arguments arguments = train(run, {"checkpoint.path=out-" + run});
    ASSERT_EQ(strata(arguments).status, 0);
    const Outcome outcome = strata(profiled(arguments, "profile-" + run));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err, ::testing::HasSubstr("strata: --profile: no step was trained"));
    EXPECT_TRUE(std::filesystem::is_empty(path("profile-" + run)));
  }
}

}  // namespace
}  // namespace strata::test
