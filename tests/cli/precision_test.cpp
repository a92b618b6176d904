// train.precision auto with the real program: what it chooses by the CPU, which STRATA_VECTOR_TARGET stands
// for here, what it says of it, and that a run keeps it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "base/vector_target.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AutomaticPrecision : public Workspace {
 protected:
  /// The run file that says nothing of it.
  AutomaticPrecision() {
    std::string text = run_file() + "checkpoint: none\n";
    const std::string given = ", precision: bf16";
    text.erase(text.find(given), given.size());
    write("run.yaml", text);
  }
  ~AutomaticPrecision() override { unsetenv("STRATA_VECTOR_TARGET"); }
  static void cap(const char* target) { setenv("STRATA_VECTOR_TARGET", target, 1); }

  /// What auto begins a run in on this machine when nothing is capped.
  static std::string own() { return vector_target() == VectorTarget::avx512_bf16 ? "bf16" : "fp32"; }
  std::string precision_of(const Arguments& arguments) const { return report(arguments).at("precision"); }
  static Arguments verbose(Arguments arguments) {
    arguments.emplace_back("--verbose");
    return arguments;
  }
  static Arguments plan(const Arguments& overrides = {}) {
    Arguments arguments = train("run.yaml", overrides);
    arguments.front() = "plan";
    return arguments;
  }
};

// Invariant (AutomaticPrecision.*): A run has one precision.
TEST_F(AutomaticPrecision, IsFp32OnACpuWithoutBf16InstructionsAndSaysSo) {
  EXPECT_EQ(precision_of(plan()), own());
  cap("avx2");
  constexpr const char* kLine =
      "precision fp32, which train.precision auto chose: this CPU, whose vector code is avx2, has no bf16 "
      "instructions";
  EXPECT_THAT(strata(plan()).out, AllOf(HasSubstr(kLine), HasSubstr(", fp32, ")));
  const Outcome outcome = strata({"train", "run.yaml", "--verbose", "--json", "report.json"});
  EXPECT_THAT(outcome.err, HasSubstr(kLine));
  const nlohmann::json chosen = nlohmann::json::parse(std::ifstream(path("report.json")));
  EXPECT_EQ(chosen.at("precision"), "fp32");
  EXPECT_EQ(chosen.at("state_hash"), state_hash(train("run.yaml", {"train.precision=fp32"})));
}

TEST_F(AutomaticPrecision, IsNotAskedWhereOneIsGiven) {
  cap("avx2");
  EXPECT_THAT(
      strata(plan({"train.precision=bf16"})).out,
      HasSubstr("precision bf16, as train.precision says: this CPU, whose vector code is avx2, has no "
                "bf16 instructions, so fp32 would be no slower"));
  for (const char* given : {"train.precision=fp32", "train.precision=fp16"})
    EXPECT_THAT(strata(plan({given})).out, Not(HasSubstr("precision "))) << given;
}

TEST_F(AutomaticPrecision, IsKeptWhenTheRunGoesOnOnAnotherCpu) {
  const Arguments first_half = {"train.steps=3", "checkpoint.path=out"}, both = {"checkpoint.path=out"};
  for (const char* begun : {"bf16", "fp32"}) {
    std::filesystem::remove_all(path("out"));
    unsetenv("STRATA_VECTOR_TARGET");
    Arguments beginning = first_half;
    beginning.push_back(std::string("train.precision=") + begun);
    ASSERT_EQ(strata(train("run.yaml", beginning)).status, 0);
    for (const char* target : {"avx2", ""}) {
      cap(target);
      EXPECT_EQ(precision_of(plan(both)), begun) << "capped to " << target;
    }
    cap("avx2");
    const Outcome dumped = strata({"train", "run.yaml", "--set", "checkpoint.path=out", "--dump-config"});
    EXPECT_THAT(dumped.out, HasSubstr(std::string("precision: ") + begun));
    EXPECT_EQ(strata({"train", "run.yaml", "--set", "checkpoint.path=out", "--dump-config", "--fresh"}).out ==
                  dumped.out,
              begun == std::string("fp32"));
    const Outcome going_on = strata(verbose(train("run.yaml", both)));
    EXPECT_EQ(going_on.status, 0) << going_on.err;
    EXPECT_THAT(going_on.err, HasSubstr(std::string("precision ") + begun +
                                        ", which train.precision auto chose: the run resumes from "
                                        "out/step-00000003, which has it"));
    EXPECT_EQ(strata({"export", "run.yaml", begun, "--set", "checkpoint.path=out"}).status, 0);
  }
}

TEST_F(AutomaticPrecision, KeepsFp8WhichCpusSayThatTheyEmulate) {
  const Outcome begun =
      strata(train("run.yaml", {"train.precision=fp8", "train.steps=3", "checkpoint.path=out"}));
  EXPECT_EQ(begun.status, 0) << begun.err;
  EXPECT_THAT(begun.err,
              HasSubstr("precision fp8, as train.precision says: CPUs have no instructions for it"));
  EXPECT_EQ(precision_of(plan({"checkpoint.path=out"})), "fp8");
  EXPECT_EQ(precision_of(train("run.yaml", {"checkpoint.path=out"})), "fp8");
}

TEST_F(AutomaticPrecision, BeginsAndGoesOnToTheBitsOfARunInOnePiece) {
  cap("avx2");
  const std::string whole = state_hash(train("run.yaml"));
  ASSERT_EQ(strata(train("run.yaml", {"train.steps=3", "checkpoint={path: out, every: 3}"})).status, 0);
  EXPECT_EQ(state_hash(train("run.yaml", {"checkpoint={path: out, every: 3}"})), whole);
}

TEST_F(AutomaticPrecision, IsReplacedByOneThatIsGivenForTheRestOfARun) {
  ASSERT_EQ(
      strata(train("run.yaml", {"train.steps=3", "checkpoint.path=out", "train.precision=bf16"})).status, 0);
  EXPECT_EQ(precision_of(train("run.yaml", {"checkpoint.path=out", "train.precision=fp32"})), "fp32");
  EXPECT_EQ(precision_of(plan({"checkpoint.path=out"})), "fp32");
}

TEST_F(AutomaticPrecision, IsDumpedAsWhatItBecame) {
  cap("avx2");
  const Outcome dumped = strata({"train", "run.yaml", "--dump-config"});
  EXPECT_THAT(dumped.out, HasSubstr("precision: fp32"));
  EXPECT_EQ(dumped.err, "");
}

TEST_F(AutomaticPrecision, IsBf16OnAnyCpuWhereAnotherKeyNeedsIt) {
  cap("avx2");
  const Outcome outcome = strata(verbose(train("run.yaml", {"optimizer.master=split"})));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("precision bf16, which train.precision auto chose: optimizer.master"));
}

TEST_F(AutomaticPrecision, OfAPlanIsThatOfTheMachineWhoseProfileIsGiven) {
  ASSERT_NE(strata({"doctor", "--profile", "machine.json"}).status, 2);
  nlohmann::json profile = nlohmann::json::parse(std::ifstream(path("machine.json")));
  EXPECT_EQ(profile.at("bf16_instructions"), own() == "bf16");
  for (const bool has_bf16 : {true, false}) {
    profile["bf16_instructions"] = has_bf16;
    write("other.json", profile.dump());
    EXPECT_EQ(precision_of(plan({"plan.machine=other.json"})), has_bf16 ? "bf16" : "fp32");
  }
  EXPECT_THAT(strata(plan({"plan.machine=other.json"})).out, HasSubstr("the CPU of other.json has no bf16"));
  profile.erase("bf16_instructions");
  write("other.json", profile.dump());
  EXPECT_EQ(precision_of(plan({"plan.machine=other.json"})), own());
}

TEST_F(AutomaticPrecision, IsSaidByTheDoctorBesideBothRates) {
  cap("avx2");
  EXPECT_THAT(
      strata({"doctor"}).out,
      AllOf(HasSubstr("TFLOP/s in fp32 and "), HasSubstr(" in bf16, copies"),
            HasSubstr("train.precision auto begins a run in fp32: this CPU, whose vector code is avx2, "
                      "has no bf16")));
}

TEST_F(AutomaticPrecision, ThatIsTooLargeForTheBudgetNamesBf16) {
  cap("avx2");
  const std::string smallest =
      bytes_in_sentence(strata(train("run.yaml", {"memory.device=4KiB", "train.precision=bf16"})));
  expect_sentence(strata(train("run.yaml", {"memory.device=" + smallest})), 2,
                  {"memory.device", "with train.precision bf16 the run fits"});
  const Outcome neither = strata(train("run.yaml", {"memory.device=4KiB"}));
  expect_sentence(neither, 2, {"memory.device"});
  EXPECT_THAT(neither.err, Not(HasSubstr("the run fits")));
}

TEST_F(AutomaticPrecision, OfRanksOnDifferentCpusIsOneThatSuitsAll) {
  Arguments first = verbose(train("run.yaml", {"train.microbatch=1", "train.threads=1"}));
  const Arguments second = first;
  first.insert(first.end(), {"--json", "report.json"});
  const auto trained = [&](const Arguments& targets) {
    const Outcome outcome = strata_on_ranks({first, second}, targets);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return std::pair(nlohmann::json::parse(std::ifstream(path("report.json"))).at("precision"), outcome.err);
  };
  const auto [precision, err] = trained({"", "avx2"});
  EXPECT_EQ(precision, "fp32");
  const std::string lacking = own() == "bf16" ? "1" : "0";
  EXPECT_THAT(err, HasSubstr("auto chose: the CPU of rank " + lacking + " ("));
  EXPECT_EQ(trained({"avx2", ""}).first, "fp32");
}

TEST_F(AutomaticPrecision, OfOneRankAndAGivenOneOfAnotherAreNotOneRun) {
  const Outcome outcome = strata_on_ranks({train("run.yaml", {"train.precision=fp32"}), train("run.yaml")});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("train.precision: auto on rank 1 ("));
}

}  // namespace
}  // namespace strata::test
