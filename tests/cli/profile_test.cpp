// The folders that plan and train write profiles to.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

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

TEST_F(Profiles, AreNotWrittenOverWhatIsNone) {
  expect_sentence(strata({"plan", "run.yaml", "--profile", "corpus.txt"}), 2, {"corpus.txt: is no folder"});
  expect_sentence(strata({"plan", "run.yaml", "--profile", "."}), 2, {"which is of no profile"});
  expect_sentence(strata(profiled(train("run.yaml"), ".")), 2, {"which is of no profile"});
}

TEST_F(Profiles, AreRefusedBeforeTrainingWhereTheyCannotBeWritten) {
  const Outcome outcome = strata(profiled(train("run.yaml"), "corpus.txt/profile"));
  expect_sentence(outcome, 2, {"corpus.txt/profile", "give --profile another folder"});
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
