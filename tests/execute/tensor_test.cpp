// Ranks that share each layer train as one rank does: whatever data-parallel ranks share out beside them, in
// stages of a pipeline, wherever state lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOutcome;

constexpr std::int64_t kSteps = 10;

struct Layout {
  int tensor = 2, stages = 1, data = 1, zero_stage = 3, replicate = 1;
  const char* architecture = "llama";
  Recompute recompute = Recompute::full;
  int ranks() const { return tensor * stages * data; }
};

std::string name_of(const Layout& layout) {
  return fmt::format("{}_tensor_{}_pipeline_{}_data_{}_replicate_{}_stage_{}_{}", layout.architecture,
                     layout.tensor, layout.stages, layout.data, layout.replicate, layout.zero_stage,
                     layout.recompute == Recompute::full ? "recomputed" : "saved");
}

class TensorTest : public ::testing::Test {
 protected:
  RunConfig config(const Layout& layout) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.architecture = layout.architecture;
    config.model.config["num_hidden_layers"] = 3;
    if (config.model.architecture == "mixtral") {
      config.model.config.erase("tie_word_embeddings");
      config.model.config["num_local_experts"] = 4;
      config.model.config["num_experts_per_tok"] = 2;
    }
    config.train.batch = 8;
    config.train.microbatch = 1;
    config.train.steps = kSteps;
    config.train.precision = DType::fp32;
    config.train.recompute = layout.recompute;
    config.train.threads = 1;
    config.parallel.data = layout.data;
    config.parallel.replicate = layout.replicate;
    config.parallel.zero_stage = layout.zero_stage;
    config.parallel.pipeline = layout.stages;
    config.parallel.tensor = layout.tensor;
    return config;
  }
  RunConfig alone(const Layout& layout) const {
    return config({.tensor = 1, .architecture = layout.architecture, .recompute = layout.recompute});
  }

  test::TemporaryFolder folder_;
};

class TensorRun : public TensorTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(TensorRun, FollowsTheRunOfOneRankInLossesAndGradients) {
  const RunConfig config = this->config(GetParam());
  const RunOutcome expected = run(alone(GetParam()));
  const std::vector<RunOutcome> ranks = run_ranks(config, GetParam().ranks());
  for (const RunOutcome& rank : ranks) {
    ASSERT_EQ(rank.result.steps.size(), static_cast<std::size_t>(kSteps));
    for (std::size_t step = 0; step < kSteps; ++step) {
      const StepReport& one = expected.result.steps[step];
      EXPECT_NEAR(rank.result.steps[step].loss, one.loss, 1e-5 * one.loss) << step;
      EXPECT_NEAR(rank.result.steps[step].grad_norm, one.grad_norm, 1e-4 * one.grad_norm) << step;
    }
    EXPECT_EQ(rank.result.state_hash, ranks[0].result.state_hash);
    expect_the_plan_was_exact(rank);
  }
  test::expect_equal_gradients(test::model_of(config), alone(GetParam()), config, GetParam().ranks());
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TensorRun,
    ::testing::Values(Layout{}, Layout{.recompute = Recompute::none}, Layout{.data = 2, .zero_stage = 0},
                      Layout{.data = 2, .zero_stage = 1}, Layout{.data = 2, .zero_stage = 2},
                      Layout{.data = 2, .zero_stage = 3}, Layout{.data = 4, .zero_stage = 3, .replicate = 2},
                      Layout{.stages = 2}, Layout{.stages = 2, .data = 2, .recompute = Recompute::none},
                      Layout{.data = 2, .architecture = "qwen3"},
                      Layout{.data = 2, .architecture = "mixtral"}),
    [](const auto& info) { return name_of(info.param); });

/// While one microbatch's values travel, another's segment computes.
TEST_F(TensorTest, TakesTurnsBetweenMicrobatches) {
  RunConfig config = this->config({.recompute = Recompute::none});
  config.plan.order = Order::layer_major;
  const Plan plan = run_ranks(config, 2)[0].plan;
  ASSERT_TRUE(plan.strategy.interleaves);
  std::vector<std::pair<std::int32_t, std::int32_t>> forward;  // microbatch, segment
  for (const Instruction& instruction : plan.training.program.instructions) {
    if (instruction.operation == Operation::forward && instruction.unit == 1 && instruction.microbatch < 2)
      forward.emplace_back(instruction.microbatch, instruction.segment);
  }
  EXPECT_THAT(forward,
              ::testing::ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(0, 1), std::pair(1, 1)));
}

/// Wherever state lives, whatever is made again, in whatever order lanes run.
TEST_F(TensorTest, HasTheSameBitsWhereverStateLives) {
  std::set<std::string> hashes;
  for (const Recompute recompute : {Recompute::full, Recompute::none}) {
    for (const bool on_host : {false, true}) {
      for (const LaneMode lanes : {LaneMode::overlapped, LaneMode::serial}) {
        RunConfig config = this->config({.data = 2, .recompute = recompute});
        config.train.steps = 3;
        config.plan.lanes = lanes;
        if (on_host) config.memory.device = test::smallest_bytes(config);
        for (const RunOutcome& rank : run_ranks(config, 4)) {
          hashes.insert(rank.result.state_hash);
          expect_the_plan_was_exact(rank);
        }
      }
    }
  }
  EXPECT_EQ(hashes.size(), 1U);
}

/// A product of which some projections are frozen is several, of which ranks have their parts alike.
TEST_F(TensorTest, FreezesAsOneRankDoes) {
  for (const char* pattern : {"*.q_proj.weight", "*.mlp.*", "*norm.weight"}) {
    RunConfig config = this->config({.data = 2});
    RunConfig alone = this->alone({});
    for (RunConfig* each : {&config, &alone}) each->train.freeze = {pattern};
    const RunOutcome expected = run(alone);
    for (const RunOutcome& rank : run_ranks(config, 4)) {
      for (std::size_t step = 0; step < kSteps; ++step) {
        const double loss = expected.result.steps[step].loss;
        EXPECT_NEAR(rank.result.steps[step].loss, loss, 1e-5 * loss) << pattern << ", step " << step;
      }
      expect_the_plan_was_exact(rank);
    }
  }
}

TEST_F(TensorTest, RefusesHeadsThatDoNotDivide) {
  const RunConfig config = this->config({.tensor = 4});
  try {
    run(config);
    FAIL() << "2 heads of keys were shared out among 4 ranks";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the axis kv_heads of 2 does not divide among 4 ranks"));
  }
}

}  // namespace
}  // namespace strata
