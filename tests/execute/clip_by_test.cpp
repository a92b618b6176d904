// optimizer.clip_by: previous_step: gradients are clipped by the norm of the step before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/config/run_config.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;

constexpr double kClip = 0.25;  // less than the norm of any step here

RunConfig clipped_by_previous(const TemporaryFolder& folder) {
  RunConfig config = test::tiny_run(folder.path());
  config.train.precision = DType::fp32;
  config.optimizer.clip_norm = kClip;
  config.optimizer.clip_by = ClipBy::previous_step;
  return config;
}

double last_loss(const RunOutcome& outcome) {
  return outcome.result.steps.back().loss;
}

// Invariant of numbers (ClipByPreviousStep.*): A step can be clipped by the norm of the step before. The
// program is that of a run without clipping, and only the factor on gradients differs. Placements and resumes
// change no bit, and ranks agree within 1e-5 in fp32.
TEST(ClipByPreviousStep, MultipliesEachStepByTheFactorOfTheNormBeforeIt) {
  const TemporaryFolder folder;
  RunConfig config = clipped_by_previous(folder);
  config.optimizer.type = OptimizerType::sgd;
  config.optimizer.weight_decay = 0;
  config.optimizer.learning_rate = 0.1;
  config.train.steps = 6;
  const std::vector<StepReport> clipped = run(config).result.steps;

  // The same factors on the learning rate.
  RunConfig reference = config;
  reference.optimizer.clip_norm = 0;
  reference.optimizer.clip_by = ClipBy::step;
  reference.schedule.type = ScheduleType::piecewise;
  double norm = 0;  // the first step is not clipped
  for (const StepReport& step : clipped) {
    reference.schedule.points.push_back({step.step, std::min(1.0, kClip / (norm + 1e-6))});
    norm = step.grad_norm;
    EXPECT_GT(norm, kClip) << "clipping would change nothing";
  }
  const std::vector<StepReport> expected = run(reference).result.steps;
  ASSERT_EQ(clipped.size(), expected.size());
  for (std::size_t s = 0; s < clipped.size(); ++s) {
    EXPECT_NEAR(clipped[s].loss, expected[s].loss, 1e-6 * expected[s].loss) << s;
    EXPECT_NEAR(clipped[s].grad_norm, expected[s].grad_norm, 1e-5 * expected[s].grad_norm) << s;
  }
  config.optimizer.clip_by = ClipBy::step;
  EXPECT_GT(std::abs(run(config).result.steps.back().loss - clipped.back().loss), 1e-3);
}

TEST(ClipByPreviousStep, HasTheProgramOfARunWithoutClipping) {
  const TemporaryFolder folder;
  RunConfig config = clipped_by_previous(folder);
  config.memory.device = smallest_bytes(config);
  RunConfig unclipped = config;
  unclipped.optimizer.clip_norm = 0;
  unclipped.optimizer.clip_by = ClipBy::step;
  EXPECT_EQ(print(run(config).plan.training().program), print(run(unclipped).plan.training().program));
  config.train.steps = unclipped.train.steps = 1;
  EXPECT_EQ(run(config).result.state_hash, run(unclipped).result.state_hash) << "the first step";
}

TEST(ClipByPreviousStep, PlacementChangesNoBit) {
  const TemporaryFolder folder;
  test::expect_the_same_bits_wherever_state_lives(clipped_by_previous(folder), folder.path());
}

TEST(ClipByPreviousStep, GoesOnFromACheckpointWithItsNorm) {
  const TemporaryFolder folder;
  RunConfig config = clipped_by_previous(folder);
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.path = (folder.path() / "out").string();
  config.train.steps = 2;
  run(config);
  config.train.steps = 4;
  EXPECT_EQ(run(config).result.state_hash, straight);
}

TEST(ClipByPreviousStep, RanksAndStagesAgreeWithOneRank) {
  const TemporaryFolder folder;
  RunConfig alone = clipped_by_previous(folder);
  alone.train.batch = 8;
  const double expected = last_loss(run(alone));
  for (RunConfig config : test::shared_by_two_ranks(alone)) {
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
      if (schedule != PipelineSchedule::one_f_one_b && config.parallel.pipeline == 1) continue;
      SCOPED_TRACE(test::layout_of(config));
      config.parallel.schedule = schedule;
      for (const RunOutcome& rank : run_ranks(config, 2)) {
        EXPECT_NEAR(last_loss(rank), expected, 1e-5 * expected);
        expect_the_plan_was_exact(rank);
      }
    }
  }
}

}  // namespace
}  // namespace strata
