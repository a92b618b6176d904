// Dropout in whole runs: what is dropped follows from where it stands in the run, so no placement, layout of
// ranks or resumption changes it, and no validation knows of it. tests/parity holds it against PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/gradients.h"
#include "tests/execute/several_models.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run;
using test::RunOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DropoutRun : public ::testing::Test {
 protected:
  /// GPT-2 with dropout of embeddings, branches and adapters, or without adapters.
  RunConfig config(AdapterType adapters) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.architecture = "gpt2";
    config.model.config = {{"n_layer", 3},      {"n_embd", 32},      {"n_head", 4},
                           {"n_positions", 24}, {"vocab_size", 128}, {"embd_pdrop", 0.25},
                           {"resid_pdrop", 0.1}};
    config.train.dropout = true;
    config.train.precision = DType::fp32;
    config.adapter.type = adapters;
    config.adapter.dropout = adapters == AdapterType::none ? 0 : 0.2;
    return config;
  }
  std::vector<RunConfig> configs() const { return {config(AdapterType::none), config(AdapterType::lora)}; }

  static RunConfig without_dropout(RunConfig config) {
    config.train.dropout = false;
    config.adapter.dropout = 0;
    return config;
  }

  test::TemporaryFolder folder_;
};

// Invariant of numbers (DropoutRun.*): Dropout depends on the place in the run alone. Masks keep the fraction
// that is asked for, and no mask tells anything of another. Placements have the same bits, ranks of every
// kind have the same gradients, and checkpoints resume. Validations drop nothing.
TEST_F(DropoutRun, ChangesWhatIsTrainedAndNoValidation) {
  for (RunConfig config : configs()) {
    config.optimizer.learning_rate = 0;
    config.train.validate_every = 1;
    const TrainResult with = run(config).result, without = run(without_dropout(config)).result;
    ASSERT_FALSE(with.validation.empty());
    for (std::size_t i = 0; i < with.validation.size(); ++i)
      EXPECT_EQ(with.validation[i].loss, without.validation[i].loss);
    EXPECT_GT(std::abs(with.steps.front().loss - without.steps.front().loss), 1e-4);
  }
}

TEST_F(DropoutRun, DropsSomethingElseInEveryStepAndWithEverySeed) {
  RunConfig config = this->config(AdapterType::none);
  config.optimizer.learning_rate = 0;
  config.data.shuffle = false;
  config.data.path = {(folder_.path() / "same").string()};
  std::ofstream(config.data.path.front()) << std::string(2000, 'x');
  const TrainResult result = run(config).result, plain = run(without_dropout(config)).result;
  EXPECT_EQ(plain.steps[0].loss, plain.steps[1].loss);
  EXPECT_NE(result.steps[0].loss, result.steps[1].loss);
}

TEST_F(DropoutRun, HasItsBitsWhereverItIsPlaced) {
  for (const RunConfig& given : configs()) {
    for (const DType precision : {DType::fp32, DType::bf16}) {
      RunConfig config = given;
      config.train.precision = precision;
      const RunOutcome resident = run(config);
      test::expect_the_plan_was_exact(resident);
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        for (const Order order : {Order::layer_major, Order::microbatch_major}) {
          config.train.recompute = recompute;
          config.plan.order = order;
          config.memory.device = test::smallest_bytes(config);
          const RunOutcome outcome = run(config);
          test::expect_the_plan_was_exact(outcome);
          EXPECT_EQ(outcome.result.state_hash, resident.result.state_hash);
          config.memory.device = kUnlimited;
        }
      }
    }
  }
}

TEST_F(DropoutRun, IsOneRunOnManyRanks) {
  for (RunConfig alone : configs()) {
    alone.train.steps = 3;
    alone.train.batch = 8;
    test::expect_one_run_on_two_ranks(alone);
  }
}

TEST_F(DropoutRun, GoesOnFromACheckpointAndSaysIfItIsAnother) {
  RunConfig config = this->config(AdapterType::lora);
  const std::string whole = run(config).result.state_hash;
  config.checkpoint.path = (folder_.path() / "checkpoints").string();
  std::atomic<bool> stop{false};
  test::StopAfter after(2, stop);
  run(config, {.stop = &stop, .listener = &after});
  test::Warnings warnings;
  EXPECT_EQ(run(config, {.listener = &warnings}).result.state_hash, whole);
  EXPECT_THAT(warnings.all(), IsEmpty());
  config.train.steps = 5;
  config.adapter.dropout = 0.3;
  run(config, {.listener = &warnings});
  EXPECT_THAT(warnings.all(), ElementsAre(HasSubstr("dropout is not that of the checkpoint")));
}

/// A merged program numbers the units of all models.
TEST_F(DropoutRun, IsThatOfARunAloneBesideOtherModels) {
  std::vector<RunConfig> configs = this->configs();
  for (RunConfig& config : configs) config.train.precision = DType::bf16;
  test::expect_solo_bits(configs, test::run_together(configs));
}

}  // namespace
}  // namespace strata
