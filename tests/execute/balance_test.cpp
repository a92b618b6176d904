// The auxiliary loss of routing in whole runs: a number of each microbatch, made by all of its layers.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;

class BalancedExperts : public ::testing::Test {
 protected:
  RunConfig config(double coefficient = 0.5) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.architecture = "mixtral";
    config.model.config = {{"num_hidden_layers", 3},
                           {"hidden_size", 16},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"intermediate_size", 20},
                           {"num_local_experts", 4},
                           {"vocab_size", 128},
                           {"output_router_logits", true},
                           {"router_aux_loss_coef", coefficient}};
    config.train.precision = DType::fp32;
    config.train.steps = 3;
    return config;
  }

  test::TemporaryFolder folder_;
};

// Invariant: Placement changes no result.
TEST_F(BalancedExperts, HaveTheSameBitsAtEveryPlacementInBothOrders) {
  for (const DType precision : {DType::fp32, DType::fp16}) {
    RunConfig config = this->config();
    config.train.precision = precision;
    const TrainResult expected = run(config).result;
    for (const Order order : {Order::layer_major, Order::microbatch_major}) {
      for (const Recompute recompute : {Recompute::full, Recompute::none, Recompute::automatic}) {
        config.plan.order = order;
        config.train.recompute = recompute;
        config.memory.device = kUnlimited;
        const Bytes smallest = smallest_bytes(config);
        for (const Bytes budget : {smallest, smallest + smallest / 2, kUnlimited}) {
          config.memory.device = budget;
          const RunOutcome outcome = run(config, {.device_threads = 2});
          EXPECT_EQ(outcome.result.state_hash, expected.state_hash);
          for (std::size_t s = 0; s < expected.steps.size(); ++s)
            EXPECT_EQ(outcome.result.steps[s].loss, expected.steps[s].loss);
          expect_the_plan_was_exact(outcome);
        }
      }
    }
  }
}

TEST_F(BalancedExperts, AddTheMeanOverMicrobatchesToTheLoss) {
  const auto first_loss = [&](double coefficient) {
    RunConfig config = this->config(coefficient);
    config.train.steps = 1;
    config.train.validate_every = 1;
    const TrainResult result = run(config).result;
    return std::pair(result.steps.front().loss, result.validation.front().loss);
  };
  const auto [none, none_of_validation] = first_loss(0);
  const auto [half, half_of_validation] = first_loss(0.5);
  const auto [twice, twice_of_validation] = first_loss(1);
  // About as many as each token goes to, if experts are chosen evenly.
  EXPECT_NEAR(half - none, 0.5 * 2, 0.1);
  EXPECT_NEAR(twice - none, 2 * (half - none), 1e-5);
  EXPECT_NEAR(half_of_validation - none_of_validation, 0.5 * 2, 0.1);
  EXPECT_NEAR(twice_of_validation - none_of_validation, 2 * (half_of_validation - none_of_validation), 1e-5);
}

TEST_F(BalancedExperts, AreChosenMoreEvenlyStepByStepWhereTheirLossOutweighsAllElse) {
  constexpr double kCoefficient = 1000;
  RunConfig config = this->config(kCoefficient);
  config.model.config["initializer_range"] = 0.5;
  config.train.steps = 30;
  const TrainResult result = run(config).result;
  const auto excess = [&](const StepReport& step) { return step.loss / kCoefficient - 2; };  // 2: evenly
  EXPECT_GT(excess(result.steps.front()), 0.05);
  EXPECT_LT(excess(result.steps.back()), excess(result.steps.front()) / 2);
}

TEST_F(BalancedExperts, OfSeveralRanksAreThoseOfOne) {
  RunConfig config = this->config();
  config.train.batch = 8;
  const TrainResult one = run(config).result;
  for (const int stage : {1, 3}) {
    config.parallel.zero_stage = stage;
    const std::vector<RunOutcome> ranks = test::run_ranks(config, 2);
    for (std::size_t s = 0; s < one.steps.size(); ++s)
      EXPECT_NEAR(ranks[0].result.steps[s].loss, one.steps[s].loss, 1e-5);
    for (const RunOutcome& rank : ranks) {
      EXPECT_EQ(rank.result.state_hash, ranks[0].result.state_hash);
      expect_the_plan_was_exact(rank);
    }
  }
}

}  // namespace
}  // namespace strata
