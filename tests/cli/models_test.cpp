// A run file of several models with the real program: bits of runs alone, reports, interruptions, refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Hashes = std::map<std::string, std::string>;

class Models : public Workspace {
 protected:
  Models() {
    write("sweep.yaml", run_file() + R"(checkpoint: {path: out}
sweep: {optimizer.lr: [1e-2, 3e-3], train.seed: [3, 4]}
)");
  }

  static const nlohmann::json& model(const nlohmann::json& report, const std::string& name) {
    for (const nlohmann::json& model : report.at("models")) {
      if (model.at("name") == name) return model;
    }
    throw std::runtime_error("no model " + name);
  }
  static Hashes hashes(const nlohmann::json& report) {
    Hashes hashes;
    for (const nlohmann::json& model : report.at("models")) hashes[model["name"]] = model["state_hash"];
    return hashes;
  }
  nlohmann::json report_of(Arguments arguments, int status) const {
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }
  /// The sweep's models, each alone.
  Hashes solo_hashes(const Arguments& overrides = {}) const {
    Hashes hashes;
    for (const std::string lr : {"1e-2", "3e-3"}) {
      for (const std::string seed : {"3", "4"}) {
        Arguments own = overrides;
        own.insert(own.end(), {"optimizer.lr=" + lr, "train.seed=" + seed});
        hashes[fmt::format("lr={},seed={}", lr, seed)] = state_hash(train("run.yaml", own));
      }
    }
    return hashes;
  }
  /// So slow that a signal comes before the end.
  static Arguments slow(Arguments overrides) {
    overrides.insert(overrides.end(),
                     {"report.metrics=metrics", "memory.device=192KiB", "device.link.h2d=2MB/s"});
    return train("sweep.yaml", overrides);
  }
};

TEST_F(Models, HaveTheBitsOfTheirRunsAloneInTheFilesOrder) {
  const nlohmann::json json = report(train("sweep.yaml"));
  EXPECT_EQ(hashes(json), solo_hashes());
  ASSERT_EQ(json["models"].size(), 4U);
  EXPECT_EQ(json["models"][1]["name"], "lr=1e-2,seed=4");
  EXPECT_EQ(json["models"][2]["name"], "lr=3e-3,seed=3");
  EXPECT_EQ(json["models"][2]["overrides"], nlohmann::json({{"optimizer.lr", "0.003"}, {"train.seed", "3"}}));
  for (const nlohmann::json& model : json["models"]) EXPECT_GT(model["loss"], 0);
  const Outcome again = strata(train("sweep.yaml"));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("leaderboard by loss"));
  EXPECT_THAT(again.out, HasSubstr("trained before\nnothing was left to train"));
  EXPECT_THAT(again.out, Not(HasSubstr("all models")));
  EXPECT_EQ(hashes(report(train("sweep.yaml"))), hashes(json));
}

TEST_F(Models, OfAnEffectiveRunFileAreThoseOfTheFile) {
  const Outcome dump = strata({"train", "sweep.yaml", "--dump-config"});
  EXPECT_EQ(dump.status, 0) << dump.err;
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  write("dump.yaml", dump.out);
  EXPECT_EQ(strata({"train", "dump.yaml", "--dump-config"}).out, dump.out);
  EXPECT_EQ(hashes(report(train("dump.yaml"))), solo_hashes());
}

TEST_F(Models, ArePlannedAsJson) {
  const Outcome outcome = strata({"plan", "sweep.yaml", "--json", "-"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["models"].size(), 4U);
  EXPECT_EQ(json["models"][3]["name"], "lr=3e-3,seed=4");
  EXPECT_EQ(json["memory"]["device"]["budget_bytes"], 512 * 1024);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

/// The large one is neither the first nor the last. Which one's kernels have most scratch depends on the CPU.
TEST_F(Models, ArePlannedBesideTheMemoryThatTheirRunHasBesideThePlan) {
  write("sizes.yaml", run_file() + R"(models: [{name: small},
  {name: large, model.config.vocab_size: 4096}, {name: long, data.sequence_length: 120}]
)");
  const auto line = [](const std::string& text, const std::string& word) {
    const std::size_t begin = ('\n' + text).find('\n' + word);
    EXPECT_NE(begin, text.npos) << text;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const Arguments arguments = train("sizes.yaml", {"memory.device=unlimited"});
  Arguments plan = arguments;
  plan.front() = "plan";
  Arguments verbose = arguments;
  verbose.emplace_back("--verbose");
  const std::string planned = strata(plan).out, said = strata(verbose).err;
  EXPECT_THAT(line(planned, "RAM     "), HasSubstr("513.00 KiB to load, save and hash state"));
  for (const std::string word : {"RAM     ", "scratch "}) EXPECT_EQ(line(said, word), line(planned, word));
  plan.insert(plan.end(), {"--json", "-"});
  nlohmann::json most;
  for (const std::string own : {"train.seed=3", "model.config.vocab_size=4096", "data.sequence_length=120"}) {
    nlohmann::json scratch =
        report({"plan", "run.yaml", "--set", own, "--set", "memory.device=unlimited"}).at("scratch");
    if (most.is_null() || scratch["planned_bytes"] > most["planned_bytes"]) most = std::move(scratch);
  }
  EXPECT_EQ(nlohmann::json::parse(strata(plan).out)["scratch"], most);
}

TEST_F(Models, GoOnWhenTheirStepsAreRaisedButNotThoseThatWereEnded) {
  const Arguments select = {"select={rung_steps: [3], keep: 0.5, by: training}"};
  const nlohmann::json first = report(train("sweep.yaml", select));
  Arguments more = select;
  more.emplace_back("train.steps=9");
  const nlohmann::json second = report(train("sweep.yaml", more));
  int ended = 0;
  for (std::size_t m = 0; m < 4; ++m) {
    const nlohmann::json &before = first["models"][m], &after = second["models"][m];
    const bool was_ended = !before["ended"].is_null();
    ended += was_ended;
    EXPECT_EQ(before["steps"], was_ended ? 3 : 6);
    EXPECT_EQ(after["steps"], was_ended ? 3 : 9);
    EXPECT_EQ(after["state_hash"] == before["state_hash"], was_ended);
    EXPECT_EQ(after["ended"], before["ended"]);
  }
  EXPECT_EQ(ended, 2);
}

TEST_F(Models, BeginAnewWithFresh) {
  const nlohmann::json first = report(train("sweep.yaml"));
  Arguments fresh = train("sweep.yaml");
  fresh.emplace_back("--fresh");
  EXPECT_EQ(strata(train("sweep.yaml", {"memory.device=4KiB", "train.steps=7"})).status, 2);
  Arguments refused = fresh;
  refused.insert(refused.end(), {"--set", "memory.device=4KiB"});
  EXPECT_EQ(strata(refused).status, 2);
  EXPECT_EQ(model(report(train("sweep.yaml")), "lr=1e-2,seed=3")["losses"].size(), 1U)
      << "what is refused forgets nothing";
  const nlohmann::json again = report(fresh);
  EXPECT_EQ(model(again, "lr=1e-2,seed=3")["losses"].size(), 6U);
  EXPECT_EQ(hashes(again), hashes(first));
}

TEST_F(Models, GoOnWithoutOneThatDiverges) {
  const Arguments sweep = {"train.precision=fp32", "optimizer.clip_norm=0"};
  write("nan.yaml", run_file() + "checkpoint: {path: out}\nsweep: {optimizer.lr: [1e-2, 1e39, 3e-3]}\n");
  const nlohmann::json json = report(train("nan.yaml", sweep));
  const nlohmann::json& ended = json["models"][1];
  EXPECT_THAT(ended["ended"].get<std::string>(), HasSubstr("its loss is "));
  EXPECT_LT(ended["steps"], 6);
  for (const std::string lr : {"1e-2", "3e-3"}) {
    Arguments solo = sweep;
    solo.push_back("optimizer.lr=" + lr);
    EXPECT_EQ(model(json, "lr=" + lr)["state_hash"], state_hash(train("run.yaml", solo)));
  }
  const Outcome again = strata(train("nan.yaml", sweep));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, HasSubstr("ended: its loss is "));
}

TEST_F(Models, SayHowTheBestIsUsedAndTheCommandsWorkAsPasted) {
  const Outcome trained = strata(train("sweep.yaml"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("1  " + behind("the best is ", trained.err)));
  const Outcome said = pasted(behind("  try it    ", trained.err));
  EXPECT_EQ(said.status, 0) << said.err;
  const Outcome exported = pasted(behind("  export    ", trained.err));
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("wrote out-best (step 6, fp32)"));
  const std::string best = behind("the best is ", trained.err);
  const Outcome of_folder = strata({"export", "out", "my best"});
  expect_sentence(of_folder, 2,
                  {"out has the models lr=1e-2,seed=3; lr=1e-2,seed=4; ",
                   "; the best is " + best + "; name one: ", "export 'out/" + best + "' 'my best'"});
  const Outcome one = pasted(behind("name one: ", of_folder.err));
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("wrote my best"));
  expect_sentence(strata({"export", "sweep.yaml", "new"}), 2,
                  {"sweep.yaml has the models", "export 'out/" + best + "' new"});
  expect_sentence(strata({"generate", "out", "--prompt", "a"}), 2,
                  {"out has the models", "generate 'out/" + best + "'"});
  std::filesystem::remove(path("out/run.json"));
  expect_sentence(strata({"export", "sweep.yaml", "new"}), 2,
                  {"none is known to be the best", "export 'out/lr=1e-2,seed=3' new"});
}

TEST_F(Models, StoppedByCtrlCAreSavedAndGoOnToTheSameBits) {
  LinePipe metrics(path("metrics"));
  Process run = start(slow({}));
  ASSERT_TRUE(metrics.wait_for_lines(2));
  run.send(SIGINT);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(behind("stopped; all was saved; resume with: ", stopped.err),
              HasSubstr("strata train sweep.yaml"));
  EXPECT_THAT(stopped.out, HasSubstr("stopped"));
  const Outcome resumed = strata(train("sweep.yaml"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming from out/lr=3e-3,seed=4/step-0000000"));
  EXPECT_EQ(hashes(report(train("sweep.yaml"))), solo_hashes());
}

/// What is saved passes through the host, which without a host tier holds nothing else.
TEST_F(Models, OnADeviceThatHoldsAllAreSavedAndHaveTheirSoloBits) {
  std::string text = run_file();
  text.erase(text.find("memory:"));
  write("all.yaml", text + "checkpoint: {path: out, every: 2}\nsweep: {optimizer.lr: [1e-2, 3e-3]}\n");
  const nlohmann::json json = report(train("all.yaml"));
  EXPECT_EQ(model(json, "lr=3e-3")["state_hash"], state_hash(train("run.yaml", {"optimizer.lr=3e-3"})));
  EXPECT_TRUE(std::filesystem::exists(path("out/lr=3e-3/step-00000006/manifest.json")));
  EXPECT_EQ(hashes(report(train("all.yaml"))), hashes(json));
}

TEST_F(Models, JoinARunThatIsStartedAgain) {
  const auto write_sweep = [&](const std::string& seeds) {
    write("seeds.yaml", run_file() + fmt::format("checkpoint: {{path: out, every: 1}}\n"
                                                 "report: {{metrics: metrics}}\n"
                                                 "sweep: {{train.seed: [{}]}}\n",
                                                 seeds));
  };
  write_sweep("3, 4");
  LinePipe metrics(path("metrics"));
  Process run = start(train("seeds.yaml", {"memory.device=192KiB", "device.link.h2d=2MB/s"}));
  ASSERT_TRUE(metrics.wait_for_lines(4));
  run.send(SIGINT);
  EXPECT_EQ(run.wait().status, 1);
  std::filesystem::remove(path("metrics"));
  write_sweep("5, 3, 4");
  const Outcome again = strata(train("seeds.yaml"));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("resuming from out/seed=4/step-0000000"));
  const nlohmann::json joined = report(train("seeds.yaml"));
  for (const std::string seed : {"3", "4", "5"})
    EXPECT_EQ(model(joined, "seed=" + seed)["state_hash"],
              state_hash(train("run.yaml", {"train.seed=" + seed})));
}

class KilledModelsProcessTest : public Models, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(, KilledModelsProcessTest, ::testing::Values("none", "training", "validation"),
                         [](const auto& info) { return info.param; });

TEST_P(KilledModelsProcessTest, AtAnyMomentGoOnToTheSameBitsAndDecisions) {
  Arguments overrides = {"train.steps=40", "data.validation_fraction=0.05"};
  if (GetParam() != "none")
    overrides.push_back(fmt::format("select={{rung_steps: [9, 20], keep: 0.6, by: {}}}", GetParam()));
  Arguments straight = overrides;
  straight.emplace_back("checkpoint.path=straight");
  const nlohmann::json expected = report(train("sweep.yaml", straight));
  overrides.insert(overrides.end(), {"checkpoint.every=3"});
  std::mt19937 random(static_cast<std::uint32_t>(GetParam().size()));  // another in each case
  for (int kill = 0; kill < 7; ++kill) {
    LinePipe metrics(path("metrics"));
    Arguments killed = overrides;
    killed.emplace_back("report.metrics=metrics");
    Process run = start(train("sweep.yaml", killed));
    ASSERT_TRUE(metrics.wait_for_lines(4 + static_cast<int>(random() % 14)))
        << "it ended before kill " << kill;
    metrics.listen_for(std::uniform_real_distribution<>(0, 0.02)(random));
    run.send(SIGKILL);
    run.wait();
  }
  const nlohmann::json resumed = report(train("sweep.yaml", overrides));
  EXPECT_EQ(hashes(resumed), hashes(expected));
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_EQ(resumed["models"][m]["ended"], expected["models"][m]["ended"]);
    EXPECT_EQ(resumed["models"][m]["steps"], expected["models"][m]["steps"]);
  }
}

/// By the size of files that are allowed: a large model among small ones.
TEST_F(Models, GoOnWithoutOneWhoseCheckpointsFail) {
  write("sizes.yaml", run_file() + R"(checkpoint: {path: out, wait_for_space: 0}
models: [{name: small}, {name: large, model.config.vocab_size: 4096}, {name: other, train.seed: 4}]
)");
  const Arguments arguments = train("sizes.yaml", {"memory.device=unlimited"});
  const Outcome full = strata(arguments, {.folder = {}, .largest_file = 256 * KiB});
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_THAT(full.out, HasSubstr("ended: it could not be saved: "));
  EXPECT_TRUE(std::filesystem::exists(path("out/small/step-00000006/manifest.json")));
  EXPECT_TRUE(std::filesystem::exists(path("out/other/step-00000006/manifest.json")));
  const nlohmann::json resumed = report(arguments);
  EXPECT_EQ(model(resumed, "small")["state_hash"], state_hash(train("run.yaml")));
  EXPECT_EQ(model(resumed, "large")["state_hash"],
            state_hash(train("run.yaml", {"model.config.vocab_size=4096", "memory.device=unlimited"})));
}

TEST_F(Models, WhoseFolderIsAFileAreRefusedBeforeAnyStep) {
  std::filesystem::create_directory(path("out"));
  write("out/lr=3e-3,seed=3", "a file");
  expect_sentence(strata(train("sweep.yaml")), 2, {"out/lr=3e-3,seed=3"});
}

TEST_F(Models, WithADamagedRecordAreRefusedWithTheWayOut) {
  const Hashes before = hashes(report(train("sweep.yaml")));
  for (const std::string record : {"", "{", "{\"format\": \"strata run\", \"version\": 2}"}) {
    write("out/run.json", record);
    expect_sentence(strata(train("sweep.yaml")), 2, {"out/run.json: is no record of a run", "--fresh"});
  }
  std::filesystem::remove(path("out/run.json"));
  EXPECT_EQ(hashes(report(train("sweep.yaml"))), before);
}

TEST_F(Models, InTheFolderOfARunUnderWayAreRefused) {
  LinePipe metrics(path("metrics"));
  Process first = start(slow({"train.steps=500"}));
  ASSERT_TRUE(metrics.wait_for_lines(1));
  Arguments fresh = train("sweep.yaml");
  fresh.emplace_back("--fresh");
  for (const Arguments& arguments : {train("sweep.yaml"), fresh})
    expect_sentence(strata(arguments), 2, {"in use by process " + std::to_string(first.id())});
  write("others.yaml", run_file() + "checkpoint: {path: out}\nsweep: {optimizer.lr: [5e-3, 4e-3]}\n");
  expect_sentence(strata(train("others.yaml")), 2,
                  {"checkpoint.path out is in use by process " + std::to_string(first.id())});
  EXPECT_TRUE(metrics.wait_for_lines(1));
}

TEST_F(Models, ThatAreNotTrainedTogetherAreRefused) {
  write("entry.yaml", run_file() + "models: [{name: a}, {name: b, memory.device: 1MiB}]\n");
  expect_sentence(strata(train("entry.yaml")), 2, {"memory"});
  expect_sentence(strata(train("sweep.yaml", {"parallel.pipeline=2"})), 2, {"2 pipeline stages"});
  expect_sentence(strata(train("sweep.yaml", {"train.seed=7"})), 2, {"train.seed"});
  expect_sentence(strata(train("sweep.yaml", {"select={rung_steps: [6]}"})), 2, {"select.rung_steps"});
  expect_sentence(strata(train("sweep.yaml", {"memory.device=4KiB"})), 2, {"memory.device"});
}

// Invariant (Models.OfSeveralRanks*): Several pipelines are their runs alone.
TEST_F(Models, OfSeveralRanksHaveTheBitsOfTheirRunsOnThem) {
  for (const std::string mesh : {"parallel.data=2", "parallel.pipeline=2"}) {
    SCOPED_TRACE(mesh);
    const Arguments overrides = {mesh, "train.microbatch=1", "train.threads=1",
                                 "select={rung_steps: [4], keep: 0.5, by: training}"};
    Arguments arguments = train("sweep.yaml", overrides);
    arguments.insert(arguments.end(), {"--fresh", "--json", "report.json"});
    const Outcome outcome = strata_on_ranks(2, arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const nlohmann::json json = nlohmann::json::parse(std::ifstream(path("report.json")));
    int trained = 0;
    for (const nlohmann::json& model : json["models"]) {
      if (!model["ended"].is_null()) continue;
      ++trained;
      Arguments solo = train("run.yaml", {overrides[0], overrides[1], overrides[2]});
      for (const auto& [key, value] : model["overrides"].items())
        solo.insert(solo.end(), {"--set", fmt::format("{}={}", key, value.get<std::string>())});
      const Outcome alone = strata_on_ranks(2, solo);
      EXPECT_THAT(alone.out, HasSubstr("state hash " + model["state_hash"].get<std::string>()));
    }
    EXPECT_EQ(trained, 2);
  }
}

}  // namespace
}  // namespace strata::test
