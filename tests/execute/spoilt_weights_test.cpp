// Weights that have become infinite: the run ends, and what was saved before stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "tests/base/expect_error.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_error;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::HasSubstr;

class SpoiltWeights : public ::testing::Test {
 protected:
  SpoiltWeights() : config_(tiny_run(folder_.path())) {
    config_.train.batch = 4;
    config_.train.precision = DType::fp32;
    config_.train.max_skipped_steps = 3;
    config_.train.steps = 2;
    config_.checkpoint.path = (folder_ / "out").string();
    config_.checkpoint.keep = 1;
  }
  /// Goes on from two good steps with updates that no weight survives.
  RunConfig spoiling() const {
    RunConfig config = config_;
    config.train.steps = 40;
    config.optimizer.learning_rate = 1e39;
    return config;
  }
  std::vector<std::string> saved() const {
    std::vector<std::string> names;
    for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), config_.checkpoint.path))
      names.push_back(entry.folder.filename().string());
    return names;
  }

  const TemporaryFolder folder_;
  RunConfig config_;
};

// Invariant of state and checkpoints (SpoiltWeights.*): Spoilt weights replace no checkpoint. A run whose
// weights are not finite ends and does not save them. The checkpoint before stays.
TEST_F(SpoiltWeights, EndTheRunAfterSomeStepsAndAreNotSaved) {
  run(config_);
  const std::vector<std::string> good = {"step-00000002"};
  ASSERT_EQ(saved(), good);
  const auto expect_end = [&](const TrainResult& result) {
    EXPECT_THAT(result.ended, HasSubstr("3 steps in a row updated nothing"));
    EXPECT_THAT(result.ended, HasSubstr("it could not be saved: the checkpoint of step"));
    EXPECT_THAT(result.ended, HasSubstr("step-00000002 before it is untouched): "));
    EXPECT_THAT(result.ended, HasSubstr(" has become "));
    EXPECT_LE(result.counters.step, 8);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(saved(), good);
  };
  expect_end(run(spoiling()).result);
  for (const RunConfig& shared : test::shared_by_two_ranks(spoiling()))
    for (const RunOutcome& outcome : run_ranks(shared, 2)) expect_end(outcome.result);
}

TEST_F(SpoiltWeights, AreNotSavedBesideTrainingEither) {
  run(config_);
  RunConfig config = spoiling();
  config.checkpoint.every = 1;
  expect_error<IoError>([&] { run(config); },
                        {"was not saved", "step-00000002 before it is untouched", "has become"});
  EXPECT_EQ(saved(), std::vector<std::string>{"step-00000002"});
}

TEST_F(SpoiltWeights, AreWhatGradientsAloneDoNotMake) {
  config_.train.precision = DType::fp16;
  config_.train.loss_scale_initial = 1e38;
  config_.train.loss_scale_backoff = 0.999;
  config_.train.steps = 40;
  const TrainResult result = run(config_).result;
  EXPECT_THAT(result.ended, HasSubstr("3 steps in a row updated nothing"));
  EXPECT_EQ(saved().size(), 1U) << "the weights are whole, and so is the checkpoint";
}

}  // namespace
}  // namespace strata
