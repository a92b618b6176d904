// Planning for machines that are elsewhere: strata plan and strata explain with --on and --machine.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class PlannedOn : public Workspace {
 protected:
  static Arguments with(Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string said(const Arguments& arguments) const {
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }
  double step(const Arguments& arguments) const {
    return report(with({"plan", "run.yaml", "--simulate"}, arguments))["simulated"]["step_seconds"];
  }
};

TEST_F(PlannedOn, AMachineARunHasAllOfIt) {
  const Arguments by_keys = {"--machine", "h200",
                             "--set",     "device.kind=cuda",
                             "--set",     "memory.device=unlimited",
                             "--set",     "memory.host=unlimited",
                             "--set",     "memory.nvme.path=elsewhere"};
  for (const char* command : {"plan", "explain"}) {
    const nlohmann::json on = report({command, "run.yaml", "--on", "h200"});
    EXPECT_EQ(on, report(with({command, "run.yaml"}, by_keys))) << command;
  }
  EXPECT_LT(5 * step({"--on", "h200"}), step({"--machine", "h200"}));
}

TEST_F(PlannedOn, AMachineSaysWhatOfTheRunFileIsNotUsed) {
  write("slow.yaml", run_file() + "device: {flops: 1e9, link: {h2d: 1MB/s}}\n");
  for (const Arguments& command :
       {Arguments{"plan", "slow.yaml"}, {"plan", "slow.yaml", "--simulate"}, {"explain", "slow.yaml"}}) {
    EXPECT_THAT(
        said(with(command, {"--on", "h200"})),
        HasSubstr("machine  h200: 1 rank, with a GPU of 136.00 GiB, 128.00 GiB of host memory, 3.49 TiB "
                  "of drives; the run file's device.kind cpu, memory.device 512.00 KiB, memory.host 64.00 "
                  "MiB, device.flops, device.link are not used\n"));
  }
  const std::string words = said({"plan", "run.yaml", "--on", "h200", "--set", "memory.device=1MiB"});
  EXPECT_THAT(words, AllOf(HasSubstr("device.kind cpu, memory.host 64.00 MiB are not used"),
                           HasSubstr("device  peak "), HasSubstr(" of 1.00 MiB")));
}

TEST_F(PlannedOn, AMachineHasItsOwnNumberOfRanks) {
  const std::string whole = "train.batch=16";
  const std::string words = said({"plan", "run.yaml", "--on", "h100-node", "--set", whole});
  EXPECT_THAT(words, HasSubstr("machine  h100-node: 8 ranks on nodes of 8, each with a GPU of 76.00 GiB, "));
  EXPECT_THAT(words, HasSubstr("may be used by each of 8 ranks"));
  EXPECT_EQ(report({"plan", "run.yaml", "--on", "h100-node", "--set", whole}),
            report({"plan", "run.yaml", "--on", "h100-node", "--set", whole, "--ranks", "8"}));
  expect_sentence(strata({"plan", "run.yaml", "--on", "h100-node"}), 2,
                  {"train.batch: 4 sequences do not divide",
                   "--on h100-node plans for all 8 devices of a node, --ranks 1 for one of them"});
  EXPECT_THAT(said({"plan", "run.yaml", "--on", "h100-node", "--ranks", "2"}),
              HasSubstr(": 2 ranks on nodes"));
}

TEST_F(PlannedOn, AMachineThatIsNoneNamesThoseThatCome) {
  for (const char* option : {"--on", "--machine"})
    expect_sentence(strata({"explain", "run.yaml", option, "h100"}), 2,
                    {std::string(option) + ": there is no file h100, and the program's own machines are "
                                           "4090-desktop, h100-node, h200"});
  std::filesystem::create_directory(path("h200"));
  EXPECT_THAT(said({"plan", "run.yaml", "--on", "h200"}), HasSubstr("machine  h200: "));
  EXPECT_EQ(strata({"plan", "run.yaml", "--on", "h200", "--machine", "h200"}).status, 2);
}

TEST_F(PlannedOn, AMachineWithoutDrivesPlansOnlyRunsThatUseNone) {
  write(
      "small.yaml",
      "flops_per_second: 140e12\nmemory_bytes_per_second: 70GB/s\nh2d_bytes_per_second: 25GB/s\n"
      "d2h_bytes_per_second: 25GB/s\ncores_copy: false\nmemory_bytes: 64GiB\ndevice_memory_bytes: 22.5GiB\n");
  const Arguments on = {"plan", "run.yaml", "--on", "small.yaml"};
  EXPECT_THAT(said(on),
              HasSubstr("small: 1 rank, with a GPU of 22.50 GiB, 64.00 GiB of host memory; the run"));
  const Arguments on_drives = with(on, {"--set", "memory.nvme.path=."});
  expect_sentence(strata(on_drives), 2,
                  {"memory.nvme.path: the run uses drives", "small.yaml has no nvme_read_bytes_per_second"});
  EXPECT_EQ(said(with(on_drives, {"--set", "memory.nvme.path=[]"})), said(on));
}

TEST_F(PlannedOn, ARefusalNamesTheCommandThatExplainsItAsItWasGiven) {
  const Arguments small = {"run.yaml", "--on", "h200", "--ranks", "2", "--set", "memory.device=1KiB"};
  expect_sentence(strata(with({"plan"}, small)), 2,
                  {"strata explain run.yaml --set 'memory.device=1KiB' --on h200 --ranks 2 says what else"});
  EXPECT_THAT(strata(with({"explain"}, small)).out, HasSubstr("What would make it fit\n  1. --set "));
}

TEST_F(PlannedOn, RatesOfAnotherDeviceAreWarnedOf) {
  const Outcome other = strata({"plan", "run.yaml", "--machine", "h200"});
  EXPECT_THAT(other.err,
              HasSubstr("warning: device.kind is cpu, and that of h200 is cuda: its rates are used "
                        "with the run file's device and budgets (memory.device 512.00 KiB, "
                        "memory.host 64.00 MiB); --on h200 plans for all that it has\n"));
  const Arguments gpu = {"plan", "run.yaml", "--machine", "h200", "--set", "device.kind=cuda"};
  EXPECT_THAT(strata(gpu).err, IsEmpty());
  EXPECT_THAT(strata(with(gpu, {"--set", "memory.device=200GiB"})).err,
              HasSubstr("warning: memory.device: 200.00 GiB is more than h200 has; --on h200 plans"));
}

TEST_F(PlannedOn, RatesThatNobodyHasMeasuredAreCalledNominal) {
  EXPECT_THAT(
      said({"plan", "run.yaml", "--set", "train.threads=2"}),
      AllOf(HasSubstr("\nrates    nominal, assumed of a CPU of 2 cores and not measured: a run on the real "
                      "machine may take longer. Norms and activations cost nothing in this plan"),
            HasSubstr("strata doctor RUN.yaml --profile FILE measures them"),
            HasSubstr(". --on MACHINE plans for another machine\n")));
  for (const Arguments& command : {Arguments{"plan", "run.yaml"},
                                   {"plan", "run.yaml", "--simulate"},
                                   {"plan", "run.yaml", "--search"},
                                   {"explain", "run.yaml"}}) {
    EXPECT_THAT(
        said(with(command, {"--on", "h200"})),
        HasSubstr("examples/machines/h200.yaml and not measured by strata doctor: a run on the real "
                  "machine may take longer. Norms, activations and AdamW on the device cost nothing"));
  }
}

TEST_F(PlannedOn, ADeviceThatIsAssumedIsNamedAndItsMemoryIsNotChecked) {
  const std::string assumed = "nominal, assumed of an NVIDIA H100 and not measured",
                    unchecked = "The memory of the device was not checked, since memory.device is unlimited";
  const Arguments gpu = {"plan", "run.yaml", "--set", "device.kind=cuda"};
  const Arguments unlimited = with(gpu, {"--set", "memory.device=unlimited"});
  EXPECT_THAT(said(gpu), AllOf(HasSubstr(assumed), Not(HasSubstr(unchecked))));
  EXPECT_THAT(said(unlimited), AllOf(HasSubstr(assumed), HasSubstr(unchecked)));
  EXPECT_THAT(said(with(unlimited, {"--machine", "h200"})), Not(HasSubstr(unchecked)));
}

TEST_F(PlannedOn, AMachineAnswersFirstThatTheRunFits) {
  EXPECT_THAT(said({"plan", "run.yaml", "--on", "h200"}),
              MatchesRegex("fits     device [0-9.]+ [KM]iB of 136.00 GiB[^;\n]*; at most [0-9,]+ tokens/s\n"
                           "machine  h200: [^$]*"));
  write("sweep.yaml", "sweep: {optimizer.lr: [1e-3, 1e-2]}\n" + run_file());
  EXPECT_THAT(said({"plan", "sweep.yaml"}), StartsWith("fits     device "));
  const std::string stages = said({"plan", "run.yaml", "--ranks", "2", "--set", "parallel.pipeline=2"});
  EXPECT_THAT(stages, StartsWith("fits     each rank takes device "));
  EXPECT_EQ(stages.find("fits     "), stages.rfind("fits     ")) << stages;
}

TEST_F(PlannedOn, DataThatAreNotThereYetAreSaidToBeSo) {
  EXPECT_THAT(said({"plan", "run.yaml"}), Not(HasSubstr("data     ")));
  for (const char* command : {"plan", "explain"})
    EXPECT_THAT(
        said({command, "run.yaml", "--on", "h200", "--set", "data.path='texts/*.txt'"}),
        HasSubstr("data     data.path texts/*.txt is not there yet: planned by the run file alone\n"));
}

TEST_F(PlannedOn, OneBoundIsSaidInOneSentence) {
  const Arguments slow = {"run.yaml", "--set", "device.flops=1e9", "--set", "memory.device=160KiB"};
  const std::string explained = said(with({"explain"}, slow));
  const std::size_t begin = explained.find("No plan of this run takes less than "),
                    end = explained.find(" times that", begin);
  ASSERT_NE(end, std::string::npos) << explained;
  EXPECT_THAT(said(with({"plan"}, slow)), HasSubstr(explained.substr(begin, end - begin)));
}

}  // namespace
}  // namespace strata::test
