// Whole runs with train.precision fp8: what is stored, moved and kept is bf16's; only what blocks multiply is
// rounded further.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::RunOutcome;
using test::tiny_run;
using ::testing::HasSubstr;

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    whole += std::pow(b[i], 2);
  }
  return std::sqrt(difference / whole);
}

class Fp8 : public ::testing::Test {
 protected:
  Fp8() { config_.train.precision = kFp8; }

  test::TemporaryFolder folder_;
  RunConfig config_ = tiny_run(folder_.path());
};

/// After one step a mean of gradients is the gradient, but for a factor. An operand's number is off by up to
/// a part in 16, evenly spread: 3.6 % root mean square, and several layers' errors add up.
// Invariant (Fp8.*): FP8 rounds alike everywhere.
TEST_F(Fp8, GradientsAreNearThoseOfBf16) {
  config_.train.steps = 1;
  const test::Tensors fp8 = test::left_by(config_, {key_of(Moment::exp_avg)});
  config_.train.precision = DType::bf16;
  const test::Tensors bf16 = test::left_by(config_, {key_of(Moment::exp_avg)});
  ASSERT_EQ(fp8.size(), bf16.size());
  for (const auto& [name, gradient] : bf16) {
    const double distance = relative_distance(fp8.at(name), gradient);
    EXPECT_LT(distance, 0.2) << name;
    EXPECT_GT(distance, 0.002) << name << ": nothing was rounded";
  }
}

TEST_F(Fp8, PlanIsThatOfBf16ButForScratch) {
  config_.memory.device = test::smallest_bytes(config_);
  const RunOutcome fp8 = run(config_);
  test::expect_the_plan_was_exact(fp8);
  config_.train.precision = DType::bf16;
  const RunOutcome bf16 = run(config_);
  EXPECT_EQ(print(fp8.plan.training().program), print(bf16.plan.training().program));
  EXPECT_NE(fp8.result.state_hash, bf16.result.state_hash);
}

TEST_F(Fp8, ACheckpointContinuesToTheSameBitsAndSaysWhatItWasComputedIn) {
  config_.optimizer.master = MasterFormat::split;
  const std::string expected = run(config_).result.state_hash;
  config_.checkpoint.path = (folder_.path() / "out").string();
  config_.train.steps = 2;
  run(config_);
  const std::vector<CheckpointEntry> saved = list_checkpoints(FileSystem::real(), config_.checkpoint.path);
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved.front().manifest->progress.precision, kFp8);
  config_.train.steps = 4;
  EXPECT_EQ(run(config_).result.state_hash, expected);
}

/// Each rank has scales of its own part, so bits differ from one rank's, as they do for the order of sums.
TEST_F(Fp8, RanksThatShareLayersLearnAsOneRankDoes) {
  const std::vector<StepReport> alone = run(config_).result.steps;
  config_.parallel.tensor = 2;
  const std::vector<StepReport> shared = test::run_ranks(config_, 2).front().result.steps;
  ASSERT_EQ(shared.size(), alone.size());
  for (std::size_t step = 0; step < alone.size(); ++step)
    EXPECT_NEAR(shared[step].loss, alone[step].loss, 0.01 * alone[step].loss) << step;
}

}  // namespace
}  // namespace strata
