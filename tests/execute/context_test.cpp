// Ranks that share sequences train as one rank does: beside whatever other ranks there are, wherever state
// lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOutcome;

constexpr std::int64_t kContextSteps = 10;
/// At more some of these runs leap, and what rounding has changed with them.
constexpr double kCalmRate = 1e-3;

struct ContextLayout {
  int context = 2, tensor = 1, stages = 1, data = 1, zero_stage = 3;
  const char* architecture = "llama";
  Recompute recompute = Recompute::full;
  bool sequence = false;
  int replicate = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  const char* frozen = "";
  double momentum = 0;  ///< of SGD; 0: AdamW
  int ranks() const { return context * tensor * stages * data; }
};

std::string name_of(const ContextLayout& layout) {
  std::string name =
      fmt::format("{}_context_{}_tensor_{}_pipeline_{}_data_{}_stage_{}_{}", layout.architecture,
                  layout.context, layout.tensor, layout.stages, layout.data, layout.zero_stage,
                  layout.recompute == Recompute::full ? "recomputed" : "saved");
  if (layout.sequence) name += "_tokens_split";
  if (layout.replicate > 1) name += fmt::format("_replicate_{}", layout.replicate);
  if (layout.schedule == PipelineSchedule::zero_bubble) name += "_zero_bubble";
  if (layout.frozen[0] != 0) name += "_frozen";
  if (layout.momentum > 0) name += "_momentum";
  return name;
}

class ContextTest : public ::testing::Test {
 protected:
  /// 24 tokens in a sequence: 2 to 4 stretches of 12 to 3.
  RunConfig config(const ContextLayout& layout) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.architecture = layout.architecture;
    const std::string architecture = layout.architecture;
    config.model.config["num_hidden_layers"] = 3;
    if (architecture == "gpt2") {
      config.model.config = {
          {"n_layer", 3}, {"n_embd", 32}, {"n_head", 4}, {"vocab_size", 128}, {"n_positions", 24}};
      config.optimizer.learning_rate = kCalmRate;
    }
    if (architecture == "mixtral") {  // whose auxiliary loss is made of whole sequences
      config.model.config.erase("tie_word_embeddings");
      config.model.config.update({{"num_local_experts", 4},
                                  {"num_experts_per_tok", 2},
                                  {"output_router_logits", true},
                                  {"router_aux_loss_coef", 0.1}});
      config.optimizer.learning_rate = kCalmRate;
    }
    if (architecture == "mistral") config.model.config["sliding_window"] = 7;
    if (architecture == "gemma2") {  // every other layer has a window, and scores a soft cap
      config.model.config["sliding_window"] = 5;
      config.model.config["head_dim"] = 8;
      config.model.config["query_pre_attn_scalar"] = 8;
      config.model.config["attn_logit_softcapping"] = 2.0;
    }
    config.train.batch = 8;
    config.train.microbatch = 2;
    config.train.steps = kContextSteps;
    config.train.precision = DType::fp32;
    if (layout.momentum > 0) {
      config.optimizer.type = OptimizerType::sgd;
      config.optimizer.momentum = layout.momentum;
    }
    config.train.recompute = layout.recompute;
    config.train.threads = 1;
    config.parallel.data = layout.data;
    config.parallel.zero_stage = layout.zero_stage;
    config.parallel.pipeline = layout.stages;
    config.parallel.tensor = layout.tensor;
    config.parallel.context = layout.context;
    config.parallel.sequence = layout.sequence;
    config.parallel.replicate = layout.replicate;
    config.parallel.schedule = layout.schedule;
    if (layout.frozen[0] != 0) {
      config.train.freeze = {layout.frozen};
      config.model.config["tie_word_embeddings"] = false;
    }
    return config;
  }
  RunConfig alone(const ContextLayout& layout) const {
    return config({.context = 1,
                   .architecture = layout.architecture,
                   .recompute = layout.recompute,
                   .frozen = layout.frozen,
                   .momentum = layout.momentum});
  }

  test::TemporaryFolder folder_;
};

class ContextRun : public ContextTest, public ::testing::WithParamInterface<ContextLayout> {};

// Invariant of ranks (ContextRun.*): Shared sequences are one run. Ranks that share sequences follow the run
// of one rank within 1e-5 in fp32, beside all other kinds of ranks. They send the bytes that the formulas
// give.
TEST_P(ContextRun, FollowsTheRunOfOneRankInLossesAndGradients) {
  RunConfig config = this->config(GetParam()), alone = this->alone(GetParam());
  for (RunConfig* each : {&config, &alone}) {
    each->data.validation_fraction = 0.1;
    each->train.validate_every = 5;
    each->train.validation_batches = 3;
  }
  const auto [expected, ranks] = test::expect_equal_runs(alone, config, GetParam().ranks());
  test::expect_equal_norms(ranks, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ContextRun,
    ::testing::Values(
        ContextLayout{}, ContextLayout{.recompute = Recompute::none}, ContextLayout{.context = 4},
        ContextLayout{.context = 3, .recompute = Recompute::none}, ContextLayout{.architecture = "gpt2"},
        ContextLayout{.context = 4, .architecture = "gpt2", .recompute = Recompute::none},
        ContextLayout{.context = 4, .architecture = "mistral"},
        ContextLayout{.context = 2, .architecture = "gemma2", .recompute = Recompute::none},
        ContextLayout{.data = 2, .zero_stage = 0}, ContextLayout{.data = 2, .zero_stage = 1},
        ContextLayout{.data = 2, .zero_stage = 2}, ContextLayout{.data = 2, .zero_stage = 3},
        ContextLayout{.tensor = 2}, ContextLayout{.tensor = 2, .data = 2}, ContextLayout{.stages = 2},
        ContextLayout{.tensor = 2, .stages = 2, .recompute = Recompute::none},
        ContextLayout{.tensor = 2, .sequence = true}, ContextLayout{.data = 2, .replicate = 2},
        ContextLayout{
            .stages = 2, .schedule = PipelineSchedule::zero_bubble, .frozen = "model.embed_tokens.*"},
        ContextLayout{.context = 4,
                      .stages = 2,
                      .schedule = PipelineSchedule::zero_bubble,
                      .frozen = "model.*.[qkie]*"},
        ContextLayout{.context = 4, .architecture = "mixtral"},
        ContextLayout{.stages = 2, .architecture = "mixtral", .recompute = Recompute::none},
        ContextLayout{.tensor = 2, .data = 2, .architecture = "mixtral"},
        ContextLayout{.data = 2, .momentum = 0.9}),
    [](const auto& info) { return name_of(info.param); });

/// Wherever state lives, whatever is made again, in whatever order lanes run.
// Invariant (ContextTest.*): Shared sequences are one run.
TEST_F(ContextTest, HasTheSameBitsWhereverStateLives) {
  std::set<std::string> hashes;
  const bool has_drive = test::why_no_drive(folder_.path()).empty();
  for (const Recompute recompute : {Recompute::full, Recompute::automatic, Recompute::none}) {
    for (const int place : {0, 1, 2}) {
      for (const LaneMode lanes : {LaneMode::overlapped, LaneMode::serial}) {
        RunConfig config = this->config({.context = 4, .recompute = recompute});
        config.train.steps = 3;
        config.plan.lanes = lanes;
        if (place > 0) config.memory.device = test::smallest_bytes(config);
        if (place > 1 && has_drive) {
          config.memory.nvme_path = {folder_.path().string()};
          config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
        }
        for (const RunOutcome& rank : run_ranks(config, 4)) {
          hashes.insert(rank.result.state_hash);
          expect_the_plan_was_exact(rank);
        }
      }
    }
  }
  EXPECT_EQ(hashes.size(), 1U);
}

/// In bf16 what is joined step by step is fp32, so that more steps do not round more.
TEST_F(ContextTest, ComputesInBf16NearlyAsOneRankDoes) {
  for (const char* architecture : {"llama", "gpt2"}) {
    RunConfig config = this->config({.context = 4, .architecture = architecture});
    RunConfig alone = this->alone({.architecture = architecture});
    for (RunConfig* each : {&config, &alone}) {
      each->train.precision = DType::bf16;
      each->optimizer.learning_rate = kCalmRate;
    }
    const RunOutcome expected = run(alone);
    for (const RunOutcome& rank : run_ranks(config, 4)) {
      for (std::size_t step = 0; step < kContextSteps; ++step)
        EXPECT_NEAR(rank.result.steps[step].loss, expected.result.steps[step].loss, 0.01)
            << architecture << step;
    }
  }
}

/// One rank's checkpoint, and that of ranks which share sequences, are each other's.
TEST_F(ContextTest, GoesOnFromACheckpointOfAnyLayout) {
  const RunOutcome expected = run(alone({}));
  for (const bool begins_alone : {false, true}) {
    RunConfig first = begins_alone ? alone({}) : config({}), second = begins_alone ? config({}) : alone({});
    for (RunConfig* each : {&first, &second})
      each->checkpoint.path = (folder_.path() / (begins_alone ? "a" : "b")).string();
    first.train.steps = 4;
    const auto run_either = [](const RunConfig& config) {
      return config.parallel.context > 1 ? run_ranks(config, 2)[0] : run(config);
    };
    run_either(first);
    const RunOutcome rest = run_either(second);
    ASSERT_EQ(rest.result.steps.size(), static_cast<std::size_t>(kContextSteps - 4));
    for (std::size_t step = 4; step < kContextSteps; ++step) {
      const double loss = expected.result.steps[step].loss;
      EXPECT_NEAR(rest.result.steps[step - 4].loss, loss, 1e-4 * loss) << step;
    }
  }
}

}  // namespace
}  // namespace strata
