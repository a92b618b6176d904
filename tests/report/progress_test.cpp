// What a run says without a terminal, where lines stay: enough to see that it advances, and no flood.
#include <gmock/gmock.h>

#include <sstream>

#include "engine/report/progress.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgressWithoutTerminal : public ::testing::Test {
 protected:
  /// The lines of a run whose steps take `seconds` each.
  std::vector<std::string> lines_of_steps(const std::vector<double>& seconds) {
    RunConfig config;
    config.train.steps = static_cast<std::int64_t>(seconds.size());
    Plan plan;
    plan.training.program.loss_terms = 1000;
    const MachineRates rates;
    ProgressLine progress(config, plan, rates, /*terminal=*/false);
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

TEST_F(ProgressWithoutTerminal, FloodsNoLog) {
  EXPECT_EQ(lines_of_steps(std::vector<double>(1000, 0.001)).size(), 2U);
}

}  // namespace
}  // namespace strata::test
