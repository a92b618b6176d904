// Several models in one run. Each has the bits of its run alone, wherever values live and in whatever order
// the models take turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/several_models.h"

namespace strata {
namespace {

using test::expect_solo_bits;
using test::JointOptions;
using test::JointOutcome;
using test::losses_of;
using test::run_together;
using test::TemporaryFolder;
using test::tiny_run;

/// Makes runs of several architectures, sizes and lengths.
std::vector<RunConfig> mixed_runs(const TemporaryFolder& folder) {
  std::vector<RunConfig> configs(4, tiny_run(folder.path()));
  configs[1].optimizer.learning_rate = 3e-3;
  configs[1].train.seed = 7;
  configs[2].model.architecture = "gpt2";
  configs[2].model.config = {{"n_layer", 2}, {"n_embd", 24}, {"n_head", 3}, {"vocab_size", 128}};
  configs[2].train.steps = 6;
  configs[2].train.batch = 4;
  configs[3].model.config["num_hidden_layers"] = 2;
  configs[3].train.steps = 3;
  configs[3].optimizer.clip_norm = 0;
  configs[3].train.validate_every = 2;
  configs[3].train.validation_batches = 2;
  return configs;
}

// Invariant of several models (SeveralModels.*): Several models are their runs alone. Each model has the
// losses and the state of its run alone, in every turn sequence and within every budget, drives included.
// The merged plan is exact.
TEST(SeveralModels, HaveTheBitsOfTheirRunsAlone) {
  const TemporaryFolder folder;
  expect_solo_bits(mixed_runs(folder), run_together(mixed_runs(folder)));
}

TEST(SeveralModels, HaveThemWithinABudgetThatHoldsNoneOfThem) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  Bytes smallest = 0;
  for (const RunConfig& config : configs) smallest = std::max(smallest, test::smallest_bytes(config));
  for (RunConfig& config : configs) config.memory.device = smallest + smallest / 4;
  expect_solo_bits(configs, run_together(configs));
}

/// So the sum of a model's is when its latest step was reported, and such moments follow one another.
TEST(SeveralModels, HaveStepsThatLastFromOneOfTheirOwnReportsToTheNext) {
  const TemporaryFolder folder;
  struct Clock : TrainListener {
    explicit Clock(std::vector<double>& moments) : moments_(moments) {}
    void on_step(const StepReport& report) override { moments_.push_back(sum_ += report.seconds); }
    std::vector<double>& moments_;
    double sum_ = 0;
  };
  std::vector<double> moments;
  Clock first(moments), second(moments), third(moments);
  const RunConfig config = tiny_run(folder.path());
  run_together({config, config, config}, {.listeners = {&first, &second, &third}});
  EXPECT_EQ(std::ssize(moments), 3 * config.train.steps);
  constexpr double kRounding = 1e-9;
  for (std::size_t i = 1; i < moments.size(); ++i) EXPECT_GT(moments[i], moments[i - 1] - kRounding) << i;
}

TEST(SeveralModels, HaveThemInEveryOrder) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  for (RunConfig& config : configs) config.memory.device = 256 * KiB;
  for (const std::string order : {"longest remaining time first", "step after step", "staggered, 2 under way",
                                  "staggered, 4 under way"}) {
    SCOPED_TRACE(order);
    const JointOutcome outcome = run_together(configs, {.order = order});
    for (const Plan& plan : outcome.plans) {
      for (const ComparedSequence& compared : plan.merged->sequences) EXPECT_EQ(compared.name, order);
    }
    expect_solo_bits(configs, outcome);
  }
}

TEST(SeveralModels, HaveThemWithStateOnDrives) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  for (RunConfig& config : configs) {
    config.memory.device = 512 * KiB;
    config.memory.host = 700 * KiB;
    config.memory.nvme_path = {folder.path().string()};
    config.memory.nvme_size = 64 * MiB;
  }
  const JointOutcome outcome = run_together(configs);
  EXPECT_GT(outcome.plans.front().arena_bytes(Tier::nvme), 0);
  expect_solo_bits(configs, outcome);
}

// Invariant of several models: A model that ends changes nothing for others. A model may be trained to its
// end, stopped at a rung, or diverge. The other models keep their bits, in no more memory.
TEST(SeveralModels, ArePlannedAnewWithinTheMemoryOfTheFirstPlanWhenOneEnds) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  for (RunConfig& config : configs) config.memory.device = 300 * KiB;
  const JointOutcome outcome = run_together(configs);
  ASSERT_EQ(outcome.plans.size(), 3);  // they have 3, 4, 4 and 6 steps
  for (const Plan& plan : outcome.plans) {
    for (const Tier tier : kTiers)
      EXPECT_LE(plan.arena_bytes(tier), outcome.plans.front().arena_bytes(tier)) << name_of(tier);
  }
  EXPECT_LT(outcome.plans.back().training().program.instructions.size(),
            outcome.plans.front().training().program.instructions.size());
  expect_solo_bits(configs, outcome);
}

// Invariant: A model that ends changes nothing for others.
TEST(SeveralModels, GoOnWithoutOneThatDiverges) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  for (RunConfig& config : configs) {
    config.train.steps += 4;
    config.train.precision = DType::fp32;
  }
  configs[1].optimizer.learning_rate = 1e39;  // not finite as fp32
  configs[1].optimizer.clip_norm = 0;
  const JointOutcome outcome = run_together(configs);
  EXPECT_THAT(outcome.results[1].ended, testing::HasSubstr("its loss is not finite at step "));
  EXPECT_LT(outcome.results[1].counters.step, configs[1].train.steps);
  for (const std::size_t m : {0, 2, 3}) expect_solo_bits(configs[m], outcome.results[m]);
}

// Invariant: A model that ends changes nothing for others.
TEST(SeveralModels, EndAtARungIfTheyAreChosenToWhileOthersHaveTheirSoloBits) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = mixed_runs(folder);
  std::vector<std::int64_t> rungs;
  JointOptions options;
  options.several.rung_steps = {1, 2};
  options.several.choose = [&](std::int64_t step, const std::vector<const TrainResult*>& results) {
    rungs.push_back(step);
    for (const TrainResult* result : results) {
      if (result != nullptr) {
        EXPECT_EQ(std::ssize(result->steps), step);
      }
    }
    std::vector<std::string> endings(results.size());
    endings[step == 1 ? 2 : 0] = "outdone";
    return endings;
  };
  const JointOutcome outcome = run_together(configs, options);
  EXPECT_EQ(rungs, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(outcome.results[2].ended, "outdone");
  EXPECT_EQ(outcome.results[2].counters.step, 1);
  EXPECT_EQ(outcome.results[0].counters.step, 2);
  EXPECT_EQ(outcome.results[1].state_hash, test::run(configs[1]).result.state_hash);
  EXPECT_EQ(outcome.results[3].state_hash, test::run(configs[3]).result.state_hash);
}

}  // namespace
}  // namespace strata
