// No command writes over what it reads, over a checkpoint, or over another output, by whatever name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

class Overwriting : public Workspace {
 protected:
  Overwriting() {
    write("run.yaml", run_file() +
                          "checkpoint: {path: out, every: 1}\n"
                          "report: {metrics: m.jsonl, trace: {path: t.pftrace, steps: 1}}\n");
  }
  void train_two_steps() const {
    const Outcome outcome = strata(train("run.yaml", {"train.steps=2"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  /// Every file of the workspace.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path("")))
      if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path("")).string());
    std::ranges::sort(names);
    return names;
  }

  void expect_refusal(const Arguments& arguments, const std::string& file,
                      std::initializer_list<std::string> parts) const {
    const std::string before = read_file(path(file));
    expect_sentence(strata(arguments), 2, parts);
    EXPECT_EQ(read_file(path(file)), before);
  }

  /// The file by another name: another spelling, a link, or a second name of the file itself.
  std::string renamed(const std::string& file, std::uint32_t way) const {
    switch (way % 5) {
      case 0:
        return "./" + file;
      case 1:
        return path(file).string();
      case 2:
        return (fs::path(file).parent_path() / "." / "." / fs::path(file).filename()).string();
      case 3:
        fs::remove(path("link"));
        fs::create_symlink(path(file), path("link"));
        return "link";
      default:
        fs::remove(path("second-name"));
        fs::create_hard_link(path(file), path("second-name"));
        return "second-name";
    }
  }
};

/// Whatever file of a finished run a report is pointed at, by whatever name.
TEST_F(Overwriting, OfAnyFileOfARunIsRefusedAndTheFileStays) {
  train_two_steps();
  const std::vector<std::string> there = files();
  ASSERT_THAT(there, ::testing::IsSupersetOf({"corpus.txt", "run.yaml", "m.jsonl", "t.pftrace",
                                              "out/step-00000002/manifest.json"}));
  const std::vector<Arguments> commands = {{"plan", "run.yaml", "--json"},
                                           {"plan", "run.yaml", "--trace"},
                                           {"explain", "run.yaml", "--json"},
                                           {"train", "run.yaml", "--json"},
                                           {"doctor", "run.yaml", "--profile"}};
  std::mt19937 random(17);
  constexpr int kTries = 12;
  for (int i = 0; i < kTries; ++i) {
    Arguments arguments = commands[random() % commands.size()];
    const std::string& file = there[random() % there.size()];
    arguments.push_back(renamed(file, random()));
    SCOPED_TRACE(fmt::format("{} over {}", fmt::join(arguments, " "), file));
    const std::string before = read_file(path(file));
    EXPECT_EQ(strata(arguments).status, 2);
    EXPECT_EQ(read_file(path(file)), before);
    fs::remove(path("second-name"));
  }
}

TEST_F(Overwriting, OfInputsByDoctorIsRefusedButNotOfTheProfileThatItMeasuresAnew) {
  write("machine.json", "{}");
  for (const char* file : {"run.yaml", "corpus.txt"})
    expect_refusal({"doctor", "run.yaml", "--profile", file}, file,
                   {fmt::format("--profile: {} is a file that the command reads", file)});
  expect_refusal({"doctor", "--profile", "machine.json", "--learn", "machine.json"}, "machine.json",
                 {"--profile: machine.json", "(--learn)"});
  expect_refusal({"plan", "run.yaml", "--set", "plan.machine=machine.json", "--json", "machine.json"},
                 "machine.json", {"(plan.machine)"});
  const Outcome anew =
      strata({"doctor", "run.yaml", "--set", "plan.machine=machine.json", "--profile", "machine.json"});
  EXPECT_EQ(anew.status, 0) << anew.err;
  EXPECT_NE(read_file(path("machine.json")), "{}");
}

TEST_F(Overwriting, OfACheckpointIsRefusedToWhoeverWrites) {
  train_two_steps();
  const std::string manifest = "out/step-00000002/manifest.json";
  expect_refusal({"plan", "run.yaml", "--json", manifest}, manifest,
                 {"--json: " + manifest, "is in the checkpoint"});
  // Also one of another run, and one that the command reads.
  expect_refusal({"plan", "run.yaml", "--set", "checkpoint.path=other", "--json", manifest}, manifest,
                 {"is in the checkpoint"});
  expect_refusal(
      {"evaluate", "out/step-00000001", "--tokenizer", "bytes", "--data", "corpus.txt", "--json", manifest},
      manifest, {"is in the checkpoint"});
  expect_refusal({"generate", "out", "--tokenizer", "bytes", "--prompt", "a", "--json", manifest}, manifest,
                 {"--json: " + manifest});
  expect_refusal({"export", "run.yaml", "out/step-00000002/exported"}, manifest, {"is in the checkpoint"});
  const std::string taken = "is in what checkpoint.path has for itself in out";
  expect_refusal(train("run.yaml", {"report.metrics=out/step-00000003/m.jsonl", "train.steps=3"}), manifest,
                 {"report.metrics: out/step-00000003/m.jsonl " + taken});
  expect_refusal({"export", "run.yaml", "out/step-00000007"}, manifest, {taken});
}

TEST_F(Overwriting, OfOneOutputByAnotherIsRefused) {
  const auto refuse = [&](const Arguments& arguments, const std::string& pair) {
    expect_sentence(strata(arguments), 2, {pair, "give each a file of its own"});
  };
  refuse({"plan", "run.yaml", "--json", "a.json", "--trace", "./a.json"}, "--json and --trace both write");
  refuse({"train", "run.yaml", "--json", "m.jsonl"}, "report.metrics and --json both write m.jsonl");
  refuse({"plan", "run.yaml", "--json", "m.jsonl"}, "report.metrics and --json both write m.jsonl");
  refuse(train("run.yaml", {"report.metrics=t.pftrace"}), "report.trace.path and report.metrics both write");
  refuse({"plan", "run.yaml", "--set", "parallel.data=2", "--json", "t.rank-1.pftrace"},
         "report.trace.path and --json both write");
  expect_sentence(strata({"train", "run.yaml", "--profile", "p", "--json", "p/summary.json"}), 2,
                  {"--json: p/summary.json is in what --profile has for itself in p"});
  // What is no file may get both, if it is written to, and may not be replaced.
  const Outcome both =
      strata({"train", "run.yaml", "--json", "/dev/null", "--set", "report.metrics=/dev/null"});
  EXPECT_EQ(both.status, 0) << both.err;
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_sentence(strata({"plan", "run.yaml", "--trace", "pipe"}), 2,
                  {"--trace: pipe is there and no regular file"});
  expect_sentence(strata(train("run.yaml", {"device.product_table=pipe"})), 2,
                  {"device.product_table: pipe is there and no regular file"});
}

TEST_F(Overwriting, OfTheRecordOfSeveralModelsIsRefused) {
  write("sweep.yaml", run_file() + "checkpoint: {path: so}\nsweep: {train.seed: [1, 2]}\n");
  const Arguments sweep = {"train", "sweep.yaml", "--set", "train.steps=1"};
  Arguments over = sweep;
  over.insert(over.end(), {"--json", "so/run.json"});
  expect_sentence(strata(over), 2, {"the run's record and --json both write so/run.json"});
  EXPECT_EQ(strata(sweep).status, 0);
  expect_refusal(over, "so/run.json", {"the run's record and --json both write so/run.json"});
  EXPECT_EQ(strata(sweep).status, 0);
}

}  // namespace
}  // namespace strata::test
