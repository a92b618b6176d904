// Data with tokens that are not trained on. A step's loss and gradient are means over its targets, however
// its microbatches are cut and whichever rank has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "engine/config/run_config.h"
#include "engine/input/data/batch_loader.h"
#include "engine/model/model.h"
#include "tests/data/corpus.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::left_by;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::Tensors;

class Untrained : public ::testing::Test {
 protected:
  Untrained() {
    config_ = test::tiny_run(corpus_.path(""));
    config_.data.tokenizer = Tokenizer::none;
    config_.train.threads = 1;
    config_.train.validate_every = 1;
    config_.train.validation_batches = 3;  // of the four that the held-out sequences fill
    config_.train.steps = 2;
  }

  /// Random ids; `is_trained(token's number)`.
  template <typename IsTrained>
  RunConfig with_marks(const std::string& name, const IsTrained& is_trained) const {
    constexpr std::size_t kTokens = 3000;
    const CounterRandom random(7, 1);
    std::vector<std::uint16_t> ids(kTokens);
    std::string marks(kTokens, '\0');
    for (std::size_t i = 0; i < kTokens; ++i) {
      ids[i] = static_cast<std::uint16_t>(random.integer(i) % 128);
      marks[i] = is_trained(i) ? '\1' : '\0';
    }
    RunConfig config = config_;
    config.data.path = {corpus_.write_megatron<std::uint16_t>(name, 8, {ids})};
    corpus_.write(name + ".trained", marks);
    return config;
  }
  /// In stretches, so that some microbatches have many targets and some have none.
  static bool is_answer(std::size_t token) { return std::sin(static_cast<double>(token) / 17) > 0.4; }
  RunConfig answers() const { return with_marks("answers", is_answer); }
  RunConfig questions() const {
    return with_marks("questions", [](std::size_t token) { return !is_answer(token); });
  }
  RunConfig plain() const {
    RunConfig config = with_marks("plain", [](std::size_t) { return true; });
    std::filesystem::remove(corpus_.path("plain.trained"));
    return config;
  }

  Corpus corpus_;
  RunConfig config_;
};

double targets_of(const RunConfig& config) {
  return static_cast<double>(BatchLoader(config, 128).trained_targets(0));
}

// Invariant of data (Untrained.*): Untrained tokens have no loss. Losses and gradients of some tokens and of
// the others add up to those of all. Ranks of every kind have the losses of one rank.
TEST_F(Untrained, IsNothingWhereAllIsTrained) {
  EXPECT_EQ(run(with_marks("all", [](std::size_t) { return true; })).result.state_hash,
            run(plain()).result.state_hash);
}

/// What is trained on and what is not are all: so are their losses and gradients, which one step of SGD
/// shows.
TEST_F(Untrained, HasLossesAndGradientsThatAddUpToThoseOfAll) {
  config_.train.precision = DType::fp32;
  config_.train.steps = 1;
  config_.train.validate_every = 0;
  config_.optimizer.type = OptimizerType::sgd;
  config_.optimizer.learning_rate = 1e4;  // so large that no bit of a gradient is lost in a weight
  config_.optimizer.clip_norm = config_.optimizer.weight_decay = 0;
  const RunConfig some = answers(), others = questions(), all = plain();
  const double some_targets = targets_of(some), other_targets = targets_of(others);
  const double targets = some_targets + other_targets;
  EXPECT_EQ(targets, static_cast<double>(all.train.batch * all.data.sequence_length));
  ASSERT_LT(some_targets, other_targets);
  const auto loss = [](const RunConfig& config) { return run(config).result.steps.at(0).loss; };
  EXPECT_NEAR(some_targets * loss(some) + other_targets * loss(others), targets * loss(all), 1e-4 * targets);
  RunConfig still = all;
  still.optimizer.learning_rate = 0;
  const std::vector<StateKey> kinds = {StateKey::master};
  const Tensors begin = left_by(still, kinds), of_some = left_by(some, kinds),
                of_others = left_by(others, kinds), of_all = left_by(all, kinds);
  for (const auto& [name, whole] : of_all) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double start = begin.at(name)[i];
      const double sum =
          some_targets * (of_some.at(name)[i] - start) + other_targets * (of_others.at(name)[i] - start);
      difference += std::pow(sum - targets * (whole[i] - start), 2);
      size += std::pow(targets * (whole[i] - start), 2);
    }
    EXPECT_LE(difference, 1e-8 * size) << name;
    EXPECT_GT(size, 0) << name;
  }
}

TEST_F(Untrained, ValidatesByTheMeanOverTargets) {
  config_.train.precision = DType::fp32;
  config_.optimizer.learning_rate = 0;
  const auto validation = [](const RunConfig& config) { return run(config).result.validation.at(0).loss; };
  const auto targets = [](const RunConfig& config) {
    return static_cast<double>(BatchLoader(config, 128).trained_validation_targets(HeldOutOnce::yes));
  };
  const RunConfig some = answers(), others = questions();
  EXPECT_NEAR(targets(some) * validation(some) + targets(others) * validation(others),
              (targets(some) + targets(others)) * validation(plain()), 1e-2);
}

TEST_F(Untrained, HasItsBitsInLittleMemoryAndInAnyOrder) {
  RunConfig config = answers();
  const std::string expected = run(config).result.state_hash;
  EXPECT_NE(expected, run(plain()).result.state_hash);
  config.memory.device = test::smallest_bytes(config);
  EXPECT_EQ(run(config).result.state_hash, expected);
  config.train.recompute = Recompute::full;
  config.plan.order = Order::microbatch_major;
  EXPECT_EQ(run(config).result.state_hash, expected);
}

/// Within what another order of sums makes of it.
TEST_F(Untrained, HasTheLossesOfOneRankOnMany) {
  config_.train.precision = DType::fp32;
  config_.model.config["vocab_size"] = 128;
  RunConfig config = answers();
  const RunOutcome alone = run(config);
  const auto expect_losses_on = [&](const RunConfig& config, int ranks) {
    for (const RunOutcome& outcome : run_ranks(config, ranks)) {
      for (std::size_t step = 0; step < alone.result.steps.size(); ++step)
        EXPECT_NEAR(outcome.result.steps.at(step).loss, alone.result.steps[step].loss, 1e-4);
      EXPECT_NEAR(outcome.result.validation.at(0).loss, alone.result.validation.at(0).loss, 1e-4);
    }
  };
  RunConfig data = config, tensor = config, context = config, pipeline = config, one = config;
  data.parallel.data = 3;
  expect_losses_on(data, 3);
  tensor.parallel.tensor = 2;
  expect_losses_on(tensor, 2);
  context.parallel.context = 2;
  expect_losses_on(context, 2);
  pipeline.parallel.pipeline = 2;
  expect_losses_on(pipeline, 2);
  one.train.microbatch = 6;
  EXPECT_NEAR(run(one).result.steps.at(0).loss, alone.result.steps.at(0).loss, 1e-5);
}

TEST_F(Untrained, IsNoLossWhereAStepHasNoTarget) {
  config_.optimizer.weight_decay = 0;
  config_.data.shuffle = false;
  const RunConfig config = with_marks("late", [](std::size_t token) { return token >= 1000; });
  ASSERT_EQ(targets_of(config), 0);
  const TrainResult result = run(config).result;
  for (const StepReport& step : result.steps) {
    EXPECT_FALSE(step.has_loss);
    EXPECT_TRUE(std::isnan(step.loss));
    EXPECT_EQ(step.grad_norm, 0);
  }
  EXPECT_EQ(recent_loss(result), std::nullopt);
  RunConfig both = with_marks("both", [](std::size_t token) { return token >= 1000 || token < 20; });
  both.train.validate_every = 0;
  const TrainResult mixed = run(both).result;
  EXPECT_TRUE(mixed.steps.at(0).has_loss);
  ASSERT_FALSE(mixed.steps.at(1).has_loss);
  EXPECT_EQ(recent_loss(mixed), mixed.steps[0].loss) << "the mean leaves it out";
}

/// However long microbatches are, the held-out loss is the mean over what is held out.
TEST_F(Untrained, CountsEachHeldOutSequenceOnce) {
  config_.train.precision = DType::fp32;
  config_.train.steps = 1;
  config_.train.batch = 12;
  config_.train.validation_batches = 100;
  const auto validation = [](RunConfig config, std::int64_t microbatch) {
    config.train.microbatch = microbatch;
    config.train.validation_batches = BatchLoader(config, 128).validation_microbatches();
    return run(config).result.validation.at(0).loss;
  };
  for (const RunConfig& config : {plain(), answers()}) {
    ASSERT_EQ(BatchLoader(config, 128).validation_sequences(), 7);
    const double one_by_one = validation(config, 1);
    for (const std::int64_t microbatch : {2, 3, 4, 6, 12})
      EXPECT_NEAR(validation(config, microbatch), one_by_one, 1e-5) << microbatch;
    RunConfig ranks = config;
    ranks.train.microbatch = 4;
    ranks.train.validation_batches = 2;
    ranks.parallel.data = 3;
    for (const RunOutcome& outcome : run_ranks(ranks, 3))
      EXPECT_NEAR(outcome.result.validation.at(0).loss, one_by_one, 1e-5);
  }
}

}  // namespace
}  // namespace strata
