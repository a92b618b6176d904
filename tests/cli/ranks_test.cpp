// The real program under mpirun: it trains as one process does, speaks with one voice, and leaves nobody
// behind.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/workspace.h"
#include "tests/support/drive.h"

namespace strata::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// It is there, and not just waiting to be forgotten.
bool is_running(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class RanksProcessTest : public Workspace {
 protected:
  static Arguments run(Arguments overrides = {}) {
    overrides.insert(overrides.begin(),
                     {"train.precision=fp32", "train.microbatch=1", "train.batch=12", "train.threads=1"});
    return train("run.yaml", overrides);
  }
};

// Invariant: Ranks of every ZeRO stage are one run.
// Invariant of ranks (RanksProcessTest.*): Processes are one run. Hosts with other rates, cores and budgets
// come to one plan. A different run file, model, data or weights on one rank is refused on all ranks. A call
// that meets a different call never gives a result.
TEST_F(RanksProcessTest, TrainAsOneProcessDoesAndSpeakWithOneVoice) {
  const nlohmann::json alone = report(run());
  Arguments arguments = run({"checkpoint.path=out", "report.tensorboard=curves"});
  arguments.insert(arguments.end(), {"--json", "report.json"});
  const Outcome outcome = strata_on_ranks(3, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "state hash "), 1U);
  EXPECT_EQ(count(outcome.err, "random weights"), 1U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("curves")),
                          std::filesystem::directory_iterator()),
            1);
  const nlohmann::json several = nlohmann::json::parse(std::ifstream(path("report.json")));
  ASSERT_EQ(several["loss"].size(), alone["loss"].size());
  for (std::size_t step = 0; step < alone["loss"].size(); ++step) {
    const double loss = alone["loss"][step];
    EXPECT_NEAR(several["loss"][step].get<double>(), loss, 1e-5 * loss);
  }
  for (const char* link : {"all_gather", "reduce_scatter", "all_reduce"}) {
    EXPECT_GT(several["traffic"][link]["planned_bytes"], 0);
    EXPECT_EQ(several["traffic"][link]["measured_bytes"], several["traffic"][link]["planned_bytes"]);
  }
}

TEST_F(RanksProcessTest, TrainAsStagesOfAPipelineAndGoOnAsOneProcess) {
  const nlohmann::json alone = report(run());
  Arguments arguments = run({"parallel.pipeline=2", "checkpoint.path=out", "train.steps=2"});
  arguments.insert(arguments.end(), {"--json", "report.json"});
  const Outcome outcome = strata_on_ranks(4, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json several = nlohmann::json::parse(std::ifstream(path("report.json")));
  const nlohmann::json resumed = report(run({"checkpoint.path=out"}));
  for (std::size_t step = 0; step < alone["loss"].size(); ++step) {
    const double loss = alone["loss"][step];
    const nlohmann::json& found = step < 2 ? several["loss"][step] : resumed["loss"][step - 2];
    EXPECT_NEAR(found.get<double>(), loss, 1e-5 * loss);
  }
  EXPECT_GT(several["traffic"]["send"]["planned_bytes"], 0);
  EXPECT_EQ(several["traffic"]["send"]["measured_bytes"], several["traffic"]["send"]["planned_bytes"]);
  const Outcome too_many = strata_on_ranks(2, run({"parallel.pipeline=9", "parallel.data=1"}));
  EXPECT_EQ(too_many.status, 2);
  EXPECT_THAT(too_many.err, HasSubstr("mpirun -n 9"));
}

TEST_F(RanksProcessTest, HaveTheSameBitsWhereParametersStayGatheredAndSendLess) {
  const auto report_with = [&](const std::string& device) {
    Arguments arguments = run({"parallel.data=2", "memory.device=" + device});
    arguments.insert(arguments.end(), {"--json", device + ".json"});
    const Outcome outcome = strata_on_ranks(2, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(std::ifstream(path(device + ".json")));
  };
  const nlohmann::json tight = report_with("160KiB"), ample = report_with("1GiB");
  EXPECT_EQ(ample["state_hash"], tight["state_hash"]);
  const auto sent = [](const nlohmann::json& report) { return report["traffic"]["all_gather"]; };
  EXPECT_EQ(sent(ample)["measured_bytes"], sent(ample)["planned_bytes"]);
  EXPECT_LT(sent(ample)["measured_bytes"], sent(tight)["measured_bytes"]);
}

/// Tensor, pipeline and data parallelism, from a checkpoint of theirs to one process.
TEST_F(RanksProcessTest, ThatShareLayersTrainAsOneProcessDoesAndItGoesOn) {
  const nlohmann::json alone = report(run({"train.steps=4"}));
  Arguments arguments =
      run({"parallel.tensor=2", "parallel.pipeline=2", "checkpoint.path=out", "train.steps=2"});
  arguments.insert(arguments.end(), {"--json", "report.json"});
  const Outcome outcome = strata_on_ranks(4, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json shared = nlohmann::json::parse(std::ifstream(path("report.json")));
  const nlohmann::json rest = report(run({"checkpoint.path=out", "train.steps=4"}));
  ASSERT_EQ(rest["loss"].size(), 2U);
  for (std::size_t step = 0; step < 4; ++step) {
    const double loss = alone["loss"][step];
    EXPECT_NEAR((step < 2 ? shared["loss"][step] : rest["loss"][step - 2]).get<double>(), loss, 1e-5 * loss);
  }
  EXPECT_EQ(shared["traffic"]["all_reduce"]["measured_bytes"],
            shared["traffic"]["all_reduce"]["planned_bytes"]);
}

/// Beside stages and tensor ranks.
TEST_F(RanksProcessTest, ThatShareSequencesTrainAsOneProcessDoesAndItGoesOn) {
  const nlohmann::json alone = report(run({"train.steps=3"}));
  Arguments arguments = run({"parallel.context=2", "parallel.tensor=2", "parallel.pipeline=2",
                             "checkpoint.path=out", "train.steps=2"});
  arguments.insert(arguments.end(), {"--json", "report.json"});
  const Outcome outcome = strata_on_ranks(8, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json shared = nlohmann::json::parse(std::ifstream(path("report.json")));
  const nlohmann::json rest = report(run({"checkpoint.path=out", "train.steps=3"}));
  ASSERT_EQ(rest["loss"].size(), 1U);
  for (std::size_t step = 0; step < 3; ++step) {
    const double loss = alone["loss"][step];
    EXPECT_NEAR((step < 2 ? shared["loss"][step] : rest["loss"][step - 2]).get<double>(), loss, 1e-5 * loss);
  }
  EXPECT_GT(shared["traffic"]["send"]["planned_bytes"], 0);
  EXPECT_EQ(shared["traffic"]["send"]["measured_bytes"], shared["traffic"]["send"]["planned_bytes"]);
}

TEST_F(RanksProcessTest, AreRefusedWithOneSentence) {
  const Outcome odd_heads = strata_on_ranks(3, run({"parallel.tensor=3"}));
  EXPECT_EQ(odd_heads.status, 2);
  EXPECT_EQ(count(odd_heads.err, "parallel.tensor: 4 heads with 2 of keys do not divide among 3 ranks"), 1U)
      << odd_heads.err;

  const Outcome unknown_key = strata_on_ranks(2, run({"train.bach=3"}));
  EXPECT_EQ(unknown_key.status, 2);
  EXPECT_EQ(count(unknown_key.err, "unknown key"), 1U) << unknown_key.err;
  const Outcome too_many = strata_on_ranks(2, run({"parallel.data=3"}));
  EXPECT_EQ(too_many.status, 2);
  EXPECT_EQ(count(too_many.err, "start it with mpirun -n 3"), 1U) << too_many.err;
  EXPECT_THAT(too_many.err, ContainsRegex("rank 0 \\([^)]+\\): parallel.data")) << "the rank and its host";
  const Outcome too_few = strata(run({"parallel.data=3"}));
  expect_sentence(too_few, 2, {"3 data ranks", "1 was started", "mpirun -n 3"});
  const Outcome too_small = strata_on_ranks(2, run({"memory.device=4KiB"}));
  EXPECT_EQ(too_small.status, 2);
  EXPECT_EQ(count(too_small.err, "the smallest that works"), 1U) << too_small.err;
}

/// What planning reads of a host. A slow link makes recomputing cheap, slow cores make it dear.
void write_profile(const std::filesystem::path& path, double flops, double link) {
  const nlohmann::json profile = {{"flops_per_second", flops},
                                  {"memory_bytes_per_second", 1e12},
                                  {"h2d_bytes_per_second", link},
                                  {"d2h_bytes_per_second", link},
                                  {"nvme_read_bytes_per_second", 6e9},
                                  {"nvme_write_bytes_per_second", 4e9},
                                  {"cores_copy", false}};
  std::ofstream(path) << profile;
}

TEST_F(RanksProcessTest, OfHostsWithOtherProfilesTrainAsEqualOnesDo) {
  write_profile(path("slow_link.json"), 1e14, 1e6);
  write_profile(path("slow_cores.json"), 1e6, 1e12);
  const Arguments link = run({"memory.device=192KiB", "plan.machine=slow_link.json"});
  const Arguments cores = run({"memory.device=192KiB", "plan.machine=slow_cores.json"});
  const auto result_of = [&](const Arguments& first, const Arguments& second) {
    const Outcome outcome = strata_on_ranks({first, second});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(outcome.out.find("state hash "),
                              std::string("state hash 0123456789abcdef").size());
  };
  const std::string equal = result_of(link, link);
  EXPECT_EQ(result_of(link, cores), equal);
  EXPECT_EQ(result_of(cores, link), equal);
}

/// mpirun gives each process a number in its environment, as a cluster gives each node a folder of its own.
TEST_F(RanksProcessTest, HaveDrivesThatTheirOwnEnvironmentNames) {
  for (const char* drive : {"drive-0", "drive-1"}) std::filesystem::create_directory(path(drive));
  const Outcome outcome = strata_on_ranks(
      2, run({"train.steps=1", "memory.nvme.path=${RUN_FILE_DIR}/drive-${OMPI_COMM_WORLD_RANK}",
              "memory.placement.optimizer_state=nvme"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("state hash "));
}

TEST_F(RanksProcessTest, WithUnevenSharesOfCoresAndBudgetsPlanForThePoorest) {
  const auto rank = [](const std::string& threads, const std::string& device) {
    return run({"train.threads=" + threads, "memory.device=" + device, "device.link.h2d=4GB/s",
                "data.sequence_length=8", "model.config.num_hidden_layers=5"});
  };
  const auto report_of = [&](Arguments first, const Arguments& second) {
    first.insert(first.end(), {"--json", "report.json"});
    const Outcome outcome = strata_on_ranks({first, second});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(std::ifstream(path("report.json")));
  };
  const nlohmann::json poor = report_of(rank("1", "448KiB"), rank("1", "448KiB"));
  const nlohmann::json uneven = report_of(rank("7", "640KiB"), rank("1", "448KiB"));
  EXPECT_EQ(uneven["state_hash"], poor["state_hash"]);
  EXPECT_EQ(uneven["loss"], poor["loss"]);
  for (const auto& [link, traffic] : poor["traffic"].items())
    EXPECT_EQ(uneven["traffic"][link]["measured_bytes"], traffic["planned_bytes"]) << link;
}

TEST_F(RanksProcessTest, ThatAreNotOneRunAreToldWhatDiffers) {
  write("other.txt", std::string(20'000, 'x'));
  const auto expect_refused = [&](const Arguments& first, const Arguments& second,
                                  const std::vector<std::string>& parts) {
    const Outcome outcome = strata_on_ranks({first, second});
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    for (const std::string& part : parts) EXPECT_EQ(count(outcome.err, part), 1U) << part << outcome.err;
  };
  expect_refused(run(), run({"train.seed=5"}), {"train.seed: 5 on rank 1 (", "and 3 on rank 0 ("});
  expect_refused(run({"optimizer.lr=1e-3"}), run(), {"optimizer.lr: 0.01 on rank 1 ("});
  expect_refused(run(), run({"model.config.num_hidden_layers=4"}), {"model.config: "});
  expect_refused(run(), run({"data.path=other.txt"}), {"sequences to train on: "});
  expect_refused(run({"checkpoint.path=out"}), run(), {"checkpoint.path: none on rank 1 ("});
  Arguments fresh = run();
  fresh.emplace_back("--fresh");
  expect_refused(run(), fresh, {"--fresh: given on rank 1 ("});
}

TEST_F(RanksProcessTest, ThatBeginWithOtherWeightsAreTold) {
  make_model_folder("model");
  std::filesystem::remove_all(path("out"));
  std::string other_seed = run_file();
  other_seed.replace(other_seed.find("seed: 3"), 7, "seed: 4");
  write("run.yaml", other_seed);
  make_model_folder("other");
  const auto rank = [](const std::string& folder) { return train("hf.yaml", {"model.path=" + folder}); };
  write("hf.yaml",
        "data: {path: corpus.txt, sequence_length: 24}\n"
        "train: {steps: 1, batch: 2, microbatch: 1, threads: 1}\n");
  const Outcome outcome = strata_on_ranks({rank("model"), rank("other")});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_EQ(count(outcome.err, "a hash of weights in model.path and adapter.path: "), 1U) << outcome.err;
}

TEST_F(RanksProcessTest, EndWhereOneIsKilledAndFewerGoOn) {
  if (const std::string reason = test::why_no_drive(path("")); !reason.empty()) GTEST_SKIP() << reason;
  const Arguments arguments =
      run({"train.steps=400", "optimizer.lr=1e-4", "checkpoint.path=out", "checkpoint.every=2",
           "memory.nvme.path=.", "memory.placement.optimizer_state=nvme", "report.metrics=metrics"});
  LinePipe metrics(path("metrics"));
  Process launcher = start_ranks(4, arguments);
  ASSERT_TRUE(metrics.wait_for_lines(5));
  const std::vector<pid_t> ranks = children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 4U);
  ::kill(ranks[2], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const Outcome outcome = launcher.wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 2"));
  for (const pid_t rank : ranks) {
    while (is_running(rank) && std::chrono::steady_clock::now() - killed < std::chrono::seconds(10))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(is_running(rank));
  }
  const Outcome resumed = strata_on_ranks(3, run({"train.steps=6", "checkpoint.path=out"}));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming from out/step-0000"));
}

}  // namespace
}  // namespace strata::test
