// The file of report.metrics.
#include <gmock/gmock.h>

#include <fstream>

#include "engine/tools/report/progress.h"
#include "tests/base/temporary_folder.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(MetricsLog, HasAllModelsOfARunWithTheirNames) {
  const TemporaryFolder folder;
  const std::string path = folder / "new/metrics.jsonl";
  const MetricsLog run(path);
  MetricsLog a = run.of_model("a"), b = run.of_model("b");
  StepReport report;
  report.step = 4;
  report.loss = 2.5;
  a.on_step(report);
  b.on_validation({.step = 5, .loss = 3.5});
  const nlohmann::json step = {
      {"step", 5},      {"loss", 2.5},      {"grad_norm", 0.0}, {"learning_rate", 0.0},
      {"seconds", 0.0}, {"skipped", false}, {"model", "a"}};
  EXPECT_THAT(lines_of(path),
              ElementsAre(step, nlohmann::json({{"step", 5}, {"validation_loss", 3.5}, {"model", "b"}})));
}

TEST(MetricsLog, OfOneModelNamesNone) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog log(path);
  log.on_validation({.step = 5, .loss = 3.5});
  EXPECT_THAT(lines_of(path), ElementsAre(nlohmann::json({{"step", 5}, {"validation_loss", 3.5}})));
}

TEST(MetricsLog, SaysOnceWhatARunBeginsWith) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog log(path);
  log.say_first("data", 7);
  for (const int step : {5, 6}) log.on_validation({.step = step, .loss = 3.5});
  EXPECT_THAT(lines_of(path),
              ElementsAre(nlohmann::json({{"step", 5}, {"validation_loss", 3.5}, {"data", 7}}),
                          nlohmann::json({{"step", 6}, {"validation_loss", 3.5}})));
}

}  // namespace
}  // namespace strata::test
