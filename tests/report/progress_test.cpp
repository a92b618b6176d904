// What a run says without a terminal, where lines stay: enough to see that it advances, and no flood.
#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "engine/config/run_config.h"
#include "engine/tools/report/progress.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgressWithoutTerminal : public ::testing::Test {
 protected:
  /// The lines of a run whose steps take `seconds` each.
  std::vector<std::string> lines_of_steps(const std::vector<double>& seconds, double flops = 0) {
    RunConfig config;
    config.train.steps = static_cast<std::int64_t>(seconds.size());
    Plan plan;
    ModelPlan& only = plan.models.emplace_back().emplace();
    only.training.program.loss_terms = 1000;
    only.flops.model = flops;
    ProductRate rate(1e9);
    ProgressLine progress(config, plan, rate, {.is_verbose = true});
    ::testing::internal::CaptureStderr();
    for (std::size_t step = 0; step < seconds.size(); ++step) {
      StepReport report;
      report.step = static_cast<std::int64_t>(step);
      report.loss = 2.5F;
      report.seconds = seconds[step];
      progress.on_step(report);
    }
    std::istringstream text(::testing::internal::GetCapturedStderr());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(ProgressWithoutTerminal, NamesStepLossSpeedMemoryAndTheTimeLeft) {
  EXPECT_THAT(lines_of_steps({2, 2, 2}).front(),
              AllOf(HasSubstr("step 1/3"), HasSubstr("loss 2.5000"), HasSubstr("500 tokens/s"),
                    HasSubstr("device "), HasSubstr("4s left")));
}

TEST_F(ProgressWithoutTerminal, LeavesNoThirtySecondsWithoutALine) {
  const std::vector<std::string> lines = lines_of_steps(std::vector<double>(14, 8));  // 24 s, then 8 s more
  EXPECT_THAT(lines, ElementsAre(HasSubstr("step 1/"), HasSubstr("step 4/"), HasSubstr("step 7/"),
                                 HasSubstr("step 10/"), HasSubstr("step 13/"), HasSubstr("step 14/")));
}

TEST_F(ProgressWithoutTerminal, IsALinePerStepIfStepsAreLong) {
  EXPECT_EQ(lines_of_steps({40, 40, 40}).size(), 3U);
}

/// Steps of 4 GFLOPs in 2 s on a machine whose products were measured at 1 GFLOP/s.
TEST_F(ProgressWithoutTerminal, RaisesARateThatTheRunBeatsAndSaysSo) {
  EXPECT_THAT(lines_of_steps({2, 2}, 4e9),
              ElementsAre(HasSubstr("the run computes 2.000e+09 FLOP/s, and products reached 1.000e+09"),
                          AllOf(HasSubstr("step 1/2"), HasSubstr("MFU 100 %")),
                          AllOf(HasSubstr("step 2/2"), HasSubstr("MFU 100 %"))));
}

TEST_F(ProgressWithoutTerminal, NeverShowsMoreThanTheWholeMachine) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> seconds(31, 200);  // a line each
  std::vector<double> steps(200);
  for (double& step : steps) step = seconds(random);
  int shown = 0;
  for (const std::string& line : lines_of_steps(steps, 1e11)) {
    if (const std::size_t at = line.find("MFU "); line.starts_with("step ") && at != line.npos) {
      ++shown;
      EXPECT_LE(std::stod(line.substr(at + 4)), 100) << line;
    }
  }
  EXPECT_EQ(shown, 200);
}

TEST(LineOfParts, LosesTheLeastImportantWhereItIsNarrow) {
  const std::vector<LinePart> parts = {
      {"step 1/2"}, {"norm 8.62", 2}, {"100 tokens/s", 0, "100 tok/s"}, {"host 1 MiB", 1}, {"3s left"}};
  EXPECT_EQ(fitted(parts, kAllColumns), "step 1/2  norm 8.62  100 tokens/s  host 1 MiB  3s left");
  EXPECT_EQ(fitted(parts, 53), "step 1/2  norm 8.62  100 tok/s  host 1 MiB  3s left");
  EXPECT_EQ(fitted(parts, 45), "step 1/2  100 tok/s  host 1 MiB  3s left");
  EXPECT_EQ(fitted(parts, 30), "step 1/2  100 tok/s  3s left");
  EXPECT_EQ(fitted(parts, 3), "step 1/2  100 tok/s  3s left");
}

TEST(LineOfParts, HasShortBytes) {
  EXPECT_EQ(short_bytes(0), "0B");
  EXPECT_EQ(short_bytes(1000), "0.977K");
  EXPECT_EQ(short_bytes(23'896'064), "22.8M");
  EXPECT_EQ(short_bytes(76 * GiB), "76G");
}

TEST_F(ProgressWithoutTerminal, FloodsNoLog) {
  EXPECT_EQ(lines_of_steps(std::vector<double>(1000, 0.001)).size(), 2U);
}

}  // namespace
}  // namespace strata::test
