// Ranks that share each layer train as one rank does: whatever data-parallel ranks share out beside them, in
// stages of a pipeline, wherever state lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/device/loss_calls.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/stored_state.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOutcome;

constexpr std::int64_t kTensorSteps = 10;

struct TensorLayout {
  int tensor = 2, stages = 1, data = 1, zero_stage = 3, replicate = 1;
  const char* architecture = "llama";
  Recompute recompute = Recompute::full;
  int vocabulary = 128;
  bool tied = true;
  bool sequence = false;
  double momentum = 0;                     ///< of SGD; 0: AdamW
  std::optional<OptimizerType> type = {};  ///< of what else
  int ranks() const { return tensor * stages * data; }
};

std::string name_of(const TensorLayout& layout) {
  return fmt::format("{}_{}_{}_tensor_{}_pipeline_{}_data_{}_replicate_{}_stage_{}_{}{}{}{}",
                     layout.architecture, layout.vocabulary, layout.tied ? "tied" : "untied", layout.tensor,
                     layout.stages, layout.data, layout.replicate, layout.zero_stage,
                     layout.recompute == Recompute::full ? "recomputed" : "saved",
                     layout.sequence ? "_sequence" : "", layout.momentum > 0 ? "_momentum" : "",
                     layout.type ? fmt::format("_{}", word_of(*layout.type)) : "");
}

/// What `architecture`'s config says otherwise than llama's.
void describe(const std::string& architecture, nlohmann::json& config) {
  if (architecture == "mixtral") {
    config.erase("tie_word_embeddings");
    config["num_local_experts"] = 4;
    config["num_experts_per_tok"] = 2;
  } else if (architecture == "qwen3_moe") {
    config["num_experts"] = 4;
    config["num_experts_per_tok"] = 2;
    config["moe_intermediate_size"] = 24;
    config["router_aux_loss_coef"] = 0.1;
    config["output_router_logits"] = true;
  } else if (architecture == "gemma2") {
    config["head_dim"] = 8;
  } else if (architecture == "granite") {
    config["embedding_multiplier"] = 1.5;
    config["logits_scaling"] = 3.0;
  } else if (architecture == "gpt2") {
    config = {{"n_layer", 3},
              {"n_embd", 32},
              {"n_head", 4},
              {"n_positions", 24},
              {"vocab_size", config["vocab_size"]},
              {"tie_word_embeddings", config["tie_word_embeddings"]}};
  }
}

class TensorTest : public ::testing::Test {
 protected:
  RunConfig config(const TensorLayout& layout) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.architecture = layout.architecture;
    config.model.config["num_hidden_layers"] = 3;
    config.model.config["vocab_size"] = layout.vocabulary;
    config.model.config["tie_word_embeddings"] = layout.tied;
    describe(layout.architecture, config.model.config);
    config.train.batch = 8;
    config.train.microbatch = 1;
    config.train.steps = kTensorSteps;
    config.train.precision = DType::fp32;
    if (layout.momentum > 0) {
      config.optimizer.type = OptimizerType::sgd;
      config.optimizer.momentum = layout.momentum;
    }
    if (layout.type) config.optimizer.type = *layout.type;
    // With more, last bits grow within the steps to more than 1e-5.
    config.optimizer.learning_rate = layout.type == OptimizerType::adafactor ? 5e-4 : 1e-3;
    config.train.recompute = layout.recompute;
    config.train.threads = 1;
    config.parallel.data = layout.data;
    config.parallel.replicate = layout.replicate;
    config.parallel.zero_stage = layout.zero_stage;
    config.parallel.pipeline = layout.stages;
    config.parallel.tensor = layout.tensor;
    config.parallel.sequence = layout.sequence;
    return config;
  }
  RunConfig alone(const TensorLayout& layout) const {
    return config({.tensor = 1,
                   .architecture = layout.architecture,
                   .recompute = layout.recompute,
                   .vocabulary = layout.vocabulary,
                   .tied = layout.tied,
                   .momentum = layout.momentum,
                   .type = layout.type});
  }

  test::TemporaryFolder folder_;
};

class TensorRun : public TensorTest, public ::testing::WithParamInterface<TensorLayout> {};

constexpr TensorLayout with_sequence(TensorLayout layout) {
  layout.sequence = true;
  return layout;
}

INSTANTIATE_TEST_SUITE_P(
    SplitTokens, TensorRun,
    ::testing::Values(
        with_sequence({}), with_sequence({.recompute = Recompute::none}),
        with_sequence({.data = 2, .zero_stage = 0, .tied = false}),
        with_sequence({.data = 2, .zero_stage = 1}),
        with_sequence({.data = 2, .zero_stage = 2, .recompute = Recompute::none}),
        with_sequence({.data = 4, .zero_stage = 3, .replicate = 2}),
        with_sequence({.stages = 2, .data = 2, .recompute = Recompute::none}),
        with_sequence({.stages = 2, .architecture = "gpt2", .vocabulary = 131}),
        with_sequence({.tensor = 4, .architecture = "gpt2", .recompute = Recompute::none, .vocabulary = 131}),
        with_sequence({.architecture = "gemma2", .vocabulary = 131}),
        with_sequence({.architecture = "qwen3", .recompute = Recompute::none}),
        with_sequence({.data = 2, .architecture = "olmo2"}),
        with_sequence({.data = 2, .architecture = "mixtral"}),
        with_sequence({.architecture = "qwen3_moe", .recompute = Recompute::none, .tied = false})),
    [](const auto& info) { return name_of(info.param); });

// Invariant of ranks (TensorRun.*): Tensor-parallel layers are one run. Ranks that share layers, with or
// without sequence parallelism, follow the run of one rank within 1e-5 in fp32. They do so beside
// data-parallel ranks of any ZeRO stage and in stages. Checkpoints, hashes and initial weights are those of
// one rank.
TEST_P(TensorRun, FollowsTheRunOfOneRankInLossesAndGradients) {
  const auto [expected, ranks] =
      test::expect_equal_runs(alone(GetParam()), config(GetParam()), GetParam().ranks());
  test::expect_equal_norms(ranks, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, TensorRun,
    ::testing::Values(
        TensorLayout{}, TensorLayout{.recompute = Recompute::none}, TensorLayout{.data = 2, .zero_stage = 0},
        TensorLayout{.data = 2, .zero_stage = 1}, TensorLayout{.data = 2, .zero_stage = 2},
        TensorLayout{.data = 2, .zero_stage = 3}, TensorLayout{.data = 4, .zero_stage = 3, .replicate = 2},
        TensorLayout{.stages = 2}, TensorLayout{.stages = 2, .data = 2, .recompute = Recompute::none},
        TensorLayout{.data = 2, .architecture = "qwen3"}, TensorLayout{.data = 2, .architecture = "mixtral"},
        TensorLayout{.data = 2, .architecture = "olmo2"},
        TensorLayout{.stages = 2, .architecture = "olmo2", .recompute = Recompute::none},
        TensorLayout{.architecture = "qwen3_moe", .vocabulary = 131, .tied = false},
        TensorLayout{.data = 2, .architecture = "gemma2", .vocabulary = 131},
        TensorLayout{.architecture = "granite", .tied = false},
        TensorLayout{.tensor = 4, .architecture = "gpt2", .vocabulary = 131},
        TensorLayout{.stages = 2, .data = 2, .architecture = "gpt2", .vocabulary = 131},
        TensorLayout{.stages = 2, .data = 2, .zero_stage = 1, .vocabulary = 131, .tied = false},
        // Two ranks have each head of keys.
        TensorLayout{.tensor = 4, .data = 2},
        TensorLayout{.tensor = 4, .data = 2, .zero_stage = 1, .architecture = "qwen2"},
        TensorLayout{.tensor = 4, .architecture = "qwen3", .recompute = Recompute::none},
        TensorLayout{.tensor = 4, .stages = 2, .architecture = "qwen3_moe"},
        TensorLayout{.data = 2, .zero_stage = 1, .momentum = 0.9},
        // Tensors are whole where directions are found.
        TensorLayout{.type = OptimizerType::muon},
        TensorLayout{.data = 2, .zero_stage = 3, .type = OptimizerType::muon},
        TensorLayout{.stages = 2, .data = 2, .zero_stage = 1, .type = OptimizerType::muon},
        TensorLayout{.architecture = "gpt2", .type = OptimizerType::muon},
        TensorLayout{.data = 2, .architecture = "qwen3_moe", .type = OptimizerType::muon},
        TensorLayout{.tensor = 4, .data = 2, .type = OptimizerType::muon},
        TensorLayout{.type = OptimizerType::adafactor},
        TensorLayout{.data = 2, .vocabulary = 131, .type = OptimizerType::adafactor},
        TensorLayout{.tensor = 4, .data = 2, .architecture = "qwen2", .type = OptimizerType::adafactor},
        TensorLayout{.stages = 2,
                     .data = 2,
                     .zero_stage = 1,
                     .architecture = "gpt2",
                     .vocabulary = 131,
                     .type = OptimizerType::adafactor}),
    [](const auto& info) { return name_of(info.param); });

/// Reads the only checkpoint in the folder.
test::Tensors weights_in(const std::filesystem::path& folder, const Model& model) {
  const std::filesystem::path saved = folder / fmt::format("step-{:08}", kTensorSteps);
  StoredState state(saved, read_manifest(saved / kManifestName), model);
  test::Tensors weights;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const TensorSpec& tensor : model.units[unit].tensors) {
      std::vector<float>& values = weights[tensor.hf_name];
      values.resize(static_cast<std::size_t>(tensor.elements));
      state.read(unit, StateKey::master, {tensor.offset, tensor.elements}, values);
    }
  }
  return weights;
}

TEST_F(TensorTest, MuonGivesTheWeightsOfOneRankInThreeDimensions) {
  const TensorLayout layout = {.stages = 2, .data = 2, .type = OptimizerType::muon};
  RunConfig alone = this->alone(layout), ranks = config(layout);
  // A last bit of a gradient changes what bf16 rounds, and so half a percent of a small singular value's
  // direction. Steps of a thousandth of the weights in all are short enough for 1e-5, and a matrix that was
  // put together in a wrong way would be a thousandth off.
  alone.optimizer.learning_rate = ranks.optimizer.learning_rate = 1e-5;
  alone.checkpoint.path = (folder_.path() / "alone").string();
  ranks.checkpoint.path = (folder_.path() / "ranks").string();
  test::run(alone);
  test::run_ranks(ranks, layout.ranks());
  const Model model = test::model_of(alone);
  const auto expected = weights_in(alone.checkpoint.path, model);
  for (const auto& [name, difference] :
       test::relative_differences(expected, weights_in(ranks.checkpoint.path, model)))
    EXPECT_LT(difference, 1e-5) << name;
}

/// An embedding's gradient goes as rows of its part to the other data-parallel ranks.
// Invariant (TensorTest.*): Tensor-parallel layers are one run.
TEST_F(TensorTest, SendsRowsOfPartsOfTheVocabulary) {
  RunConfig config = this->config({.data = 2, .vocabulary = 151, .tied = false});
  config.train.steps = 3;
  config.data.sequence_length = 4;
  const std::vector<RunOutcome> sparse = run_ranks(config, 4);
  config.parallel.sparse_gradients = false;
  const std::vector<RunOutcome> whole = run_ranks(config, 4);
  const auto sums_rows = [](const RunOutcome& rank) {
    return std::ranges::any_of(rank.plan.training().program.instructions,
                               [](const Instruction& each) { return each.operation == Operation::sum_rows; });
  };
  EXPECT_TRUE(sums_rows(sparse[0]));
  EXPECT_FALSE(sums_rows(whole[0]));
  for (const RunOutcome& rank : sparse) {
    EXPECT_EQ(rank.result.state_hash, whole[0].result.state_hash);
    expect_the_plan_was_exact(rank);
  }
}

/// Logits are exchanged as three numbers of each token and rank, chunk after chunk; no rank has more of them
/// than its part of the vocabulary, nor of weights.
TEST_F(TensorTest, ExchangesStatisticsOfLogits) {
  RunConfig config = this->config({.vocabulary = 131});
  const Plan plan = run_ranks(config, 2)[0].plan;
  const std::int64_t tokens = config.data.sequence_length, hidden = 32;
  std::vector<std::int64_t> elements;
  for (const Instruction& instruction : plan.training().program.instructions) {
    if (instruction.lane == Lane::tensor && instruction.unit == 4 && instruction.microbatch == 0)
      elements.push_back(instruction.writes.front().elements);
  }
  EXPECT_THAT(elements, ::testing::ElementsAre(tokens * 2 * kSoftmaxStatistics, tokens * hidden));
}

/// While one microbatch's values travel, another's segment computes.
TEST_F(TensorTest, TakesTurnsBetweenMicrobatches) {
  RunConfig config = this->config({.recompute = Recompute::none});
  config.plan.order = Order::layer_major;
  const Plan plan = run_ranks(config, 2)[0].plan;
  ASSERT_TRUE(plan.only().strategy.interleaves);
  std::vector<std::pair<std::int32_t, std::int32_t>> forward;  // microbatch, segment
  for (const Instruction& instruction : plan.training().program.instructions) {
    if (instruction.operation == Operation::forward && instruction.unit == 1 && instruction.microbatch < 3)
      forward.emplace_back(instruction.microbatch, instruction.segment);
  }
  EXPECT_THAT(forward, ::testing::ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(0, 1),
                                              std::pair(2, 0), std::pair(1, 1), std::pair(2, 1)));
}

/// Wherever state lives, whatever is made again, in whatever order lanes run.
class TensorPlaces : public TensorTest, public ::testing::WithParamInterface<bool> {};

// Invariant (TensorPlaces.*): Tensor-parallel layers are one run.
TEST_P(TensorPlaces, ChangeNoBit) {
  std::set<std::string> hashes;
  const auto run_with = [&](RunConfig config) {
    config.train.steps = 3;
    for (const RunOutcome& rank : run_ranks(config, config.ranks())) {
      hashes.insert(rank.result.state_hash);
      expect_the_plan_was_exact(rank);
    }
  };
  for (const Recompute recompute : {Recompute::full, Recompute::none, Recompute::automatic}) {
    const RunConfig config = this->config({.data = 2, .recompute = recompute, .sequence = GetParam()});
    for (const bool on_host : {false, true}) {
      for (const LaneMode lanes : {LaneMode::overlapped, LaneMode::serial}) {
        RunConfig placed = config;
        placed.plan.lanes = lanes;
        if (on_host) placed.memory.device = test::smallest_bytes(config);
        run_with(placed);
      }
    }
    if (!test::why_no_drive(folder_.path()).empty()) continue;
    RunConfig on_drive = config;
    on_drive.memory.nvme_path = {folder_.path().string()};
    on_drive.memory.parameters = on_drive.memory.optimizer_state = TierChoice::nvme;
    run_with(on_drive);
  }
  EXPECT_EQ(hashes.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Tokens, TensorPlaces, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "split" : "whole"; });

/// With t ranks a part of tokens is 1/t of them. Forward each layer gathers twice and scatters twice;
/// backward its products' inputs are gathered once more. The embedding scatters and gathers once, and so does
/// the head.
TEST_F(TensorTest, SendsPartsOfTokens) {
  const TensorLayout layout = {.recompute = Recompute::none, .sequence = true};
  RunConfig config = this->config(layout);
  config.train.steps = 1;
  const std::int64_t layers = 3, others = 1, hidden = 32;
  const std::int64_t part = config.data.sequence_length / 2 * hidden * size_of(DType::fp32);
  const std::int64_t per_part = others * part * config.microbatches();
  for (const RunOutcome& rank : run_ranks(config, 2)) {
    EXPECT_EQ(rank.plan.training().moved(Link::all_gather), per_part * (6 * layers + 2));
    EXPECT_EQ(rank.plan.training().moved(Link::reduce_scatter), per_part * (4 * layers + 2));
    expect_the_plan_was_exact(rank);
  }
}

/// Between stages a rank sends its part of the tokens, and a divided backward pass makes the same bits.
TEST_F(TensorTest, PassesPartsOfTokensFromStageToStage) {
  std::set<std::string> hashes;
  std::map<bool, Bytes> sent;
  for (const bool sequence : {false, true}) {
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
      RunConfig config = this->config({.stages = 2, .sequence = sequence});
      config.parallel.schedule = schedule;
      config.parallel.stages = {"embedding", "block.1"};
      config.train.steps = 2;
      for (const RunOutcome& rank : run_ranks(config, 4)) {
        sent[sequence] = std::max(sent[sequence], rank.plan.training().moved(Link::send));
        if (sequence) hashes.insert(rank.result.state_hash);
        expect_the_plan_was_exact(rank);
      }
    }
  }
  EXPECT_EQ(hashes.size(), 1U);
  const std::int64_t input = 24 * 32 * size_of(DType::fp32), microbatches = 8;
  EXPECT_EQ(sent[false] - sent[true], microbatches * input / 2);
}

TEST_F(TensorTest, ValidatesWithPartsOfTokens) {
  const TensorLayout layout = {.data = 2, .recompute = Recompute::none, .tied = false, .sequence = true};
  RunConfig config = this->config(layout), alone = this->alone(layout);
  for (RunConfig* run : {&config, &alone}) {
    run->train.steps = 4;
    run->train.validate_every = 2;
    run->train.validation_batches = 3;
    run->data.validation_fraction = 0.1;
  }
  const RunOutcome expected = run(alone);
  for (const RunOutcome& rank : run_ranks(config, 4)) {
    ASSERT_EQ(rank.result.validation.size(), expected.result.validation.size());
    for (std::size_t i = 0; i < expected.result.validation.size(); ++i) {
      const double loss = expected.result.validation[i].loss;
      EXPECT_NEAR(rank.result.validation[i].loss, loss, 1e-5 * loss);
    }
    expect_the_plan_was_exact(rank);
  }
}

/// A product with some frozen projections becomes several. Ranks have the same part of each.
TEST_F(TensorTest, FreezesAsOneRankDoes) {
  for (const char* pattern : {"*.q_proj.weight", "*.mlp.*", "*norm.weight", "*embed_tokens.weight"}) {
    RunConfig config = this->config({.data = 2});
    RunConfig alone = this->alone({});
    for (RunConfig* each : {&config, &alone}) each->train.freeze = {pattern};
    const RunOutcome expected = run(alone);
    for (const RunOutcome& rank : run_ranks(config, 4)) {
      for (std::size_t step = 0; step < kTensorSteps; ++step) {
        const double loss = expected.result.steps[step].loss;
        EXPECT_NEAR(rank.result.steps[step].loss, loss, 1e-5 * loss) << pattern << ", step " << step;
      }
      expect_the_plan_was_exact(rank);
    }
  }
}

TEST_F(TensorTest, RefusesHeadsThatDoNotDivide) {
  const RunConfig config = this->config({.tensor = 3});
  try {
    run(config);
    FAIL() << "2 heads of keys were shared out among 3 ranks";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("4 heads with 2 of keys do not divide among 3 ranks; take a "
                                     "divisor of 2, or a multiple of it that divides 4"));
  }
}

}  // namespace
}  // namespace strata
