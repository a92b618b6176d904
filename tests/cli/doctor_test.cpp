// strata doctor: a line for everything that it looks at, and rates that the planner takes.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Doctor = Workspace;

TEST_F(Doctor, LooksAtEverythingAndWritesRatesThatAPlanIsMadeBy) {
  const Outcome outcome = strata({"doctor", "--drive", ".", "--profile", "machine.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("kernel"), HasSubstr("memlock"), HasSubstr("huge pages"), HasSubstr("CUDA"),
                    HasSubstr("DRAM"), HasSubstr("device"), HasSubstr("drive"), HasSubstr("x 16")));
  EXPECT_FALSE(std::filesystem::exists(path("strata-spill")));
  const Outcome plan = strata({"plan", "run.yaml", "--set", "plan.machine=machine.json"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out,
              AllOf(HasSubstr("s per step, limited by"),
                    HasSubstr("\nrates    measured by strata doctor, in machine.json. Norms and ")));
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{}, {"--set", "plan.machine=missing.json"}}) {
    std::vector<std::string> arguments = {"plan", "run.yaml", "--machine", "machine.json"};
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    const Outcome by_option = strata(arguments);
    EXPECT_EQ(by_option.status, 0) << by_option.err;
    EXPECT_EQ(by_option.out, plan.out);
  }
}

TEST_F(Doctor, TimesTheKernelsOfARunsModelAndAPlanIsMadeByThem) {
  const Outcome outcome = strata({"doctor", "run.yaml", "--profile", "machine.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("calls of the model's passes"));
  nlohmann::json profile = nlohmann::json::parse(std::ifstream(path("machine.json")));
  ASSERT_GT(profile["kernels"].size(), 10U);
  const auto seconds = [&](double times) {
    nlohmann::json slower = profile;
    for (nlohmann::json& kernel : slower["kernels"])
      kernel["seconds"] = times * kernel["seconds"].get<double>();
    write("slower.json", slower.dump());
    const Outcome plan =
        strata({"explain", "run.yaml", "--set", "plan.machine=slower.json", "--json", "explained.json"});
    EXPECT_EQ(plan.status, 0) << plan.err;
    return nlohmann::json::parse(std::ifstream(path("explained.json")))["now"]["step_seconds"].get<double>();
  };
  EXPECT_GT(seconds(1000), 10 * seconds(1));
  profile["kernels"][0]["seconds"] = 0;
  write("broken.json", profile.dump());
  const Outcome refused = strata({"plan", "run.yaml", "--set", "plan.machine=broken.json"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("broken.json is no machine profile: each of its kernels needs seconds"));
}

TEST_F(Doctor, LearnsFromARunThatWasPlannedByAProfile) {
  const auto train_by = [&](const char* profile) {
    const std::string machine = std::string("plan.machine=") + profile;
    const Outcome run = strata({"train", "run.yaml", "--fresh", "--json", "report.json", "--set", machine});
    EXPECT_EQ(run.status, 0) << run.err;
    return nlohmann::json::parse(std::ifstream(path("report.json")))["simulated"];
  };
  const Arguments learn = {"doctor", "run.yaml", "--profile", "learned.json", "--learn", "report.json"};
  ASSERT_EQ(strata({"train", "run.yaml", "--json", "report.json"}).status, 0);
  expect_sentence(strata(learn), 2, {"--learn: the run of report.json was planned without a profile"});

  ASSERT_EQ(strata({"doctor", "run.yaml", "--profile", "machine.json"}).status, 0);
  nlohmann::json profile = nlohmann::json::parse(std::ifstream(path("machine.json")));
  for (nlohmann::json& kernel : profile["kernels"])
    kernel["seconds"] = 1000 * kernel["seconds"].get<double>();
  write("slow.json", profile.dump());
  const nlohmann::json simulated = train_by("slow.json");
  EXPECT_TRUE(simulated["by_profile"]);
  const auto& compute = simulated["lanes"]["compute"];
  EXPECT_GT(compute["simulated_seconds"], 10 * compute["measured_seconds"].get<double>());
  EXPECT_TRUE(simulated["operations"].contains("forward"));

  const Outcome outcome = strata(learn);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rates are corrected by report.json"));
  const nlohmann::json learned = nlohmann::json::parse(std::ifstream(path("learned.json")));
  EXPECT_GT(learned["flops_per_second"], 10 * profile["flops_per_second"].get<double>());
  EXPECT_EQ(strata({"plan", "run.yaml", "--set", "plan.machine=learned.json"}).status, 0);

  expect_sentence(strata({"doctor", "run.yaml", "--profile", "learned.json", "--learn", "missing.json"}), 2,
                  {"--learn: ", "missing.json"});
  for (const char* broken :
       {"{}", "not json", R"({"simulated": null})", R"({"simulated": {"by_profile": true}})"}) {
    write("report.json", broken);
    expect_sentence(strata(learn), 2, {"--learn: report.json is not the report of a run"});
  }
}

TEST_F(Doctor, StatesTheMemoryThatUnlimitedMeansToThePlan) {
  nlohmann::json rates = {{"cores_copy", true}, {"memory_bytes", 264 << 20}};
  for (const char* rate :
       {"flops_per_second", "memory_bytes_per_second", "h2d_bytes_per_second", "d2h_bytes_per_second",
        "nvme_read_bytes_per_second", "nvme_write_bytes_per_second"})
    rates[rate] = 1e9;
  write("small.json", rates.dump());
  const auto plan = [&](const Arguments& overrides) {
    Arguments arguments = train("run.yaml", overrides);
    arguments[0] = "plan";
    arguments.insert(arguments.end(), {"--set", "plan.machine=small.json", "--set", "memory.host=unlimited"});
    return strata(arguments);
  };
  const Outcome fits = plan({});
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_THAT(fits.out,
              AllOf(HasSubstr(" of 264.00 MiB may be used; "), HasSubstr("to load, save and hash state")));
  // State of six million parameters.
  const std::string large = "model.config.vocab_size=200000";
  expect_sentence(
      plan({"memory.device=4MiB", large}), 2,
      {"memory.device: 4.00 MiB", "unlimited is what the machine has: ", " of 264.00 MiB may be used; "});
  expect_sentence(plan({"memory.device=60MiB", large}), 2,
                  {"memory.host", "to plan for another one give memory.host a number"});
  const Outcome spilled = plan(
      {"model.config.num_hidden_layers=120", "model.config.intermediate_size=384", "memory.nvme.path=."});
  EXPECT_EQ(spilled.status, 0) << spilled.err;
  EXPECT_THAT(spilled.out, AllOf(HasSubstr("nvme    peak"), Not(HasSubstr("nvme    peak 0 B")),
                                 HasSubstr("are free in memory.nvme.path")));
}

TEST_F(Doctor, OfSeveralRanksSpeaksOnceAndMeasuresTheirLinks) {
  const Outcome outcome = strata_on_ranks(2, {"doctor", "--profile", "machine.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::size_t first = outcome.out.find("kernel ");
  EXPECT_EQ(outcome.out.find("kernel ", first + 1), std::string::npos) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("us between ranks of a host, by 2 ranks"));
  const nlohmann::json profile = nlohmann::json::parse(std::ifstream(path("machine.json")));
  EXPECT_GT(profile["rank_bytes_per_second"], 1e6);
  EXPECT_GT(profile["rank_latency_seconds"], 0);
  EXPECT_FALSE(profile.contains("node_ranks"));
  EXPECT_EQ(strata({"plan", "run.yaml", "--machine", "machine.json", "--ranks", "2"}).status, 0);
}

TEST_F(Doctor, EndsWithAnErrorWhereADriveCannotBeUsed) {
  const Outcome outcome = strata({"doctor", "--drive", "missing"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("bad  drive"));
}

TEST_F(Doctor, ProfilesThatAreNoneAreRefusedByThePlan) {
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=missing.json"}), 2,
                  {"plan.machine: cannot read missing.json", "strata doctor --profile writes one"});
  write("other.json", "{}");
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"other.json is no machine profile"});
  nlohmann::json profile = {
      {"flops_per_second", 1e12},  {"memory_bytes_per_second", 1e10}, {"h2d_bytes_per_second", 1e10},
      {"d2h_bytes_per_second", 0}, {"nvme_read_bytes_per_second", 0}, {"nvme_write_bytes_per_second", 0},
      {"cores_copy", true}};
  write("other.json", profile.dump());
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"other.json is no machine profile: d2h_bytes_per_second is 0"});
  write("other.json", "{\"flops_per_second\": 1,\n}");
  expect_sentence(strata({"plan", "run.yaml", "--set", "plan.machine=other.json"}), 2,
                  {"plan.machine: other.json:2:1: this is not valid JSON"});
}

}  // namespace
}  // namespace strata::test
