// Samples that runs take between steps: they are what generation says with the weights of that moment, the
// same on ranks of every kind and within every budget, and they change nothing that is trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/generate/generator.h"
#include "engine/run/generate/model_source.h"
#include "tests/base/expect_error.h"
#include "tests/execute/several_models.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::HasSubstr;

using Ids = std::vector<std::vector<std::int32_t>>;

Ids ids_of(const SamplePoint& point) {
  Ids ids;
  for (const Sample& sample : point.samples) ids.push_back(sample.ids);
  return ids;
}

std::vector<Ids> ids_of(const TrainResult& result) {
  std::vector<Ids> ids;
  for (const SamplePoint& point : result.samples) ids.push_back(ids_of(point));
  return ids;
}

/// A model that rotates otherwise as soon as a sample has more than 12 tokens.
const nlohmann::json kLongRope = {{"num_hidden_layers", 2},
                                  {"hidden_size", 32},
                                  {"num_attention_heads", 4},
                                  {"intermediate_size", 48},
                                  {"vocab_size", 128},
                                  {"pad_token_id", nullptr},
                                  {"max_position_embeddings", 64},
                                  {"original_max_position_embeddings", 12},
                                  {"rope_scaling",
                                   {{"rope_type", "longrope"},
                                    {"short_factor", {1.0, 1.5, 2.0, 2.0}},
                                    {"long_factor", {1.0, 5.0, 20.0, 40.0}}}}};

class SamplesOfARun : public ::testing::Test {
 protected:
  SamplesOfARun() : config_(tiny_run(folder_.path())) {
    config_.train.precision = DType::fp32;
    config_.samples = {
        .prompts = {"line ", "of a small", "7"}, .every = 2, .max_length = 20, .temperature = 1};
  }

  RunConfig long_rope() const {
    RunConfig config = config_;
    config.model.architecture = "phi3";
    config.model.config = kLongRope;
    return config;
  }

  /// A model that rotates sequences of more than 12 tokens otherwise at each length.
  RunConfig dynamic() const {
    RunConfig config = config_;
    config.model.config["max_position_embeddings"] = 12;
    config.model.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
    config.samples.max_length = 12;
    return config;
  }

  RunConfig saving() const {
    RunConfig config = config_;
    config.checkpoint.path = (folder_.path() / "checkpoints").string();
    return config;
  }

  /// What generation says behind the prompts with the weights that a run has left.
  Ids generated(const RunConfig& config) const {
    const ModelSource source = open_model(config.checkpoint.path, {DeviceKind::cpu, config.rounding()}, "");
    CpuDevice device({.threads = 2, .link = {}});
    Ids ids;
    for (std::size_t i = 0; i < config.samples.prompts.size(); ++i) {
      const std::string& text = config.samples.prompts[i];
      const TokenIds prompt(text.begin(), text.end());
      GenerationOptions options{.precision = config.precision(),
                                .max_tokens = config.samples.max_length - std::ssize(prompt),
                                .stops = {0},
                                .sampling = {.temperature = config.samples.temperature,
                                             .top_p = config.samples.top_p,
                                             .top_k = config.samples.top_k,
                                             .seed = config.train.seed},
                                .budget = {}};
      // Numbers are drawn for a prompt's number, so those before it are generated, too.
      const std::vector<TokenIds> prompts(i + 1, prompt);
      ids.push_back(Generator(device, *source.model, source.read, prompts, options).run()[i].ids);
    }
    return ids;
  }

  /// A run's last samples are what its checkpoint says.
  void expect_generated(const RunConfig& config) const {
    const RunOutcome outcome = run(config);
    EXPECT_EQ(ids_of(outcome.result.samples.back()), generated(config));
    expect_the_plan_was_exact(outcome);
  }

  /// All points of `config` on one rank and on several.
  static void expect_the_same_on(const RunConfig& alone, const RunConfig& config, int ranks) {
    const std::vector<Ids> expected = ids_of(run(alone).result);
    for (const RunOutcome& rank : run_ranks(config, ranks)) {
      EXPECT_EQ(ids_of(rank.result), expected);
      expect_the_plan_was_exact(rank);
    }
  }

  TemporaryFolder folder_;
  RunConfig config_;
};

// Invariant of generation (SamplesOfARun.*): Samples are those of generation. A run draws the tokens that
// `strata generate` draws with the weights of that step in fp32. Ranks of every kind and all placements draw
// the same tokens. State and losses are those of a run without samples, except under the pipedream schedules,
// whose pipeline drains for samples.
TEST_F(SamplesOfARun, AreTakenBeforeTheFirstStepBetweenStepsAndAfterTheLast) {
  config_.train.steps = 5;
  const RunOutcome outcome = run(config_);
  std::vector<std::int64_t> steps;
  for (const SamplePoint& point : outcome.result.samples) {
    steps.push_back(point.step);
    ASSERT_EQ(point.samples.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const Sample& sample = point.samples[i];
      EXPECT_EQ(sample.prompt, config_.samples.prompts[i]);
      const std::int64_t length = std::ssize(sample.prompt) + std::ssize(sample.ids);
      EXPECT_TRUE(length == 20 || sample.ids.back() == 0) << length;
      EXPECT_FALSE(sample.text.empty());
    }
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 2, 4, 5}));
  EXPECT_NE(ids_of(outcome.result.samples.front()), ids_of(outcome.result.samples.back()));
  expect_the_plan_was_exact(outcome);
}

TEST_F(SamplesOfARun, AreWhatGenerationSaysWithTheWeightsOfThatMoment) {
  for (const char* architecture : {"llama", "gpt2", "qwen3", "mistral", "gemma2", "mixtral", "phi3"}) {
    SCOPED_TRACE(architecture);
    RunConfig config = saving();
    config.checkpoint.path += architecture;
    config.model.architecture = architecture;
    const std::string type = architecture;
    if (type == "gpt2")
      config.model.config = {
          {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"n_positions", 24}, {"vocab_size", 128}};
    if (type == "mistral") config.model.config["sliding_window"] = 7;
    if (type == "gemma2") config.model.config.update({{"head_dim", 8}, {"sliding_window", 7}});
    if (type == "mixtral")
      config.model.config.update(
          {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"output_router_logits", true}});
    if (type == "qwen3") config.model.config["head_dim"] = 8;
    if (type == "phi3") config.model.config = kLongRope;
    expect_generated(config);
  }
}

/// With short sequences and long ones, samples that stay short, that come to be long, and that begin so.
TEST_F(SamplesOfARun, RotateByTheirOwnLengths) {
  config_ = long_rope();
  config_.samples.prompts.emplace_back("a small text, 3 ");
  for (const DataPacking packing : {DataPacking::none, DataPacking::documents}) {
    for (const auto& [sequence, longest] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{24, 22}, {24, 12}, {13, 13}, {12, 12}, {8, 8}}) {
      SCOPED_TRACE(testing::Message() << "sequences of " << sequence << ", samples of " << longest
                                      << (packing == DataPacking::none ? "" : ", packed"));
      RunConfig config = saving();
      config.data.packing = packing;
      config.data.sequence_length = sequence;
      config.samples.max_length = longest;
      std::erase_if(config.samples.prompts, [&](const std::string& prompt) {
        return std::ssize(prompt) >= config.samples.max_length;
      });
      config.checkpoint.path += std::to_string(sequence) + std::to_string(longest);
      config.checkpoint.path += packing == DataPacking::none ? "" : "-packed";
      expect_generated(config);
    }
  }
}

TEST_F(SamplesOfARun, AreRefusedWhereEachLengthHasARotationOfItsOwn) {
  config_ = dynamic();
  config_.samples.max_length = 13;
  test::expect_error<ConfigError>([&] { run(config_); }, {"train.samples: the model's rope type is dynamic",
                                                          "beyond 12 tokens", "train.samples.max_length"});
  RunConfig config = saving();
  config.samples.max_length = 12;  // and sequences are longer
  expect_generated(config);
}

TEST_F(SamplesOfARun, AreDrawnAsGenerationDraws) {
  RunConfig config = saving();
  for (const auto& [temperature, top_p, top_k] :
       {std::tuple(0.0, 1.0, 0), std::tuple(0.7, 0.9, 0), std::tuple(1.5, 1.0, 10)}) {
    config.samples.temperature = temperature;
    config.samples.top_p = top_p;
    config.samples.top_k = top_k;
    config.checkpoint.path += "-";
    expect_generated(config);
  }
}

TEST_F(SamplesOfARun, ChangeNothingThatIsTrained) {
  for (RunConfig with : {config_, long_rope(), dynamic()}) {
    for (const DType precision : {DType::fp32, DType::bf16}) {
      with.train.precision = precision;
      with.train.validate_every = 2;
      with.data.validation_fraction = 0.2;
      RunConfig without = with;
      without.samples = {};
      const RunOutcome expected = run(without), found = run(with);
      EXPECT_EQ(found.result.state_hash, expected.result.state_hash);
      EXPECT_EQ(test::losses_of(found.result), test::losses_of(expected.result));
      EXPECT_TRUE(expected.result.samples.empty());
    }
  }
}

TEST_F(SamplesOfARun, AreTheSameWhereverStateLives) {
  config_ = long_rope();
  const std::vector<Ids> expected = ids_of(run(config_).result);
  RunConfig tight = config_, spilled = config_;
  tight.memory.device = smallest_bytes(config_);
  tight.plan.order = Order::microbatch_major;
  spilled.memory.nvme_path = {folder_.path().string()};
  spilled.memory.optimizer_state = spilled.memory.parameters = TierChoice::nvme;
  RunConfig serial = tight;
  serial.plan.lanes = LaneMode::serial;
  RunConfig alone = config_;
  alone.memory.host = std::nullopt;  // the device has all
  for (const RunConfig& config : {tight, spilled, serial, alone}) {
    const RunOutcome outcome = run(config);
    EXPECT_EQ(ids_of(outcome.result), expected);
    expect_the_plan_was_exact(outcome);
  }
}

TEST_F(SamplesOfARun, AreTheSameOnRanksOfEveryKind) {
  for (RunConfig alone : {config_, long_rope()}) {
    alone.train.steps = 2;
    alone.train.batch = 8;
    for (const RunConfig& config : test::shared_by_two_ranks(alone)) {
      SCOPED_TRACE(alone.model.architecture + ", " + test::layout_of(config));
      expect_the_same_on(alone, config, 2);
    }
  }
}

TEST_F(SamplesOfARun, AreTheSameUnderEveryScheduleOfStages) {
  config_.train.steps = 2;
  config_.train.batch = 8;
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::interleaved,
                                          PipelineSchedule::zero_bubble, PipelineSchedule::breadth_first}) {
    RunConfig pipeline = config_;
    pipeline.parallel.pipeline = 2;
    pipeline.parallel.schedule = schedule;
    const bool has_chunks =
        schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::breadth_first;
    pipeline.parallel.chunks = has_chunks ? 2 : 1;
    expect_the_same_on(config_, pipeline, 2);
  }
}

/// Weights of such a pipeline are others than those of one rank.
TEST_F(SamplesOfARun, AreWhatGenerationSaysWithStaleWeights) {
  RunConfig config = saving();
  config.model.config["tie_word_embeddings"] = false;
  config.parallel.pipeline = 2;
  config.parallel.schedule = PipelineSchedule::pipedream_2bw;
  const std::vector<RunOutcome> ranks = run_ranks(config, 2);
  const Ids expected = generated(config);
  for (const RunOutcome& rank : ranks) EXPECT_EQ(ids_of(rank.result.samples.back()), expected);
}

/// Copies of heads of keys, and a vocabulary that does not divide.
TEST_F(SamplesOfARun, AreTheSameOnMoreRanksThanHeadsOfKeys) {
  config_.train.steps = 2;
  config_.model.config["vocab_size"] = 126;
  RunConfig tensor = config_;
  tensor.parallel.tensor = 4;
  expect_the_same_on(config_, tensor, 4);
}

TEST_F(SamplesOfARun, AreTheSameOnAMeshOfAll) {
  config_.train.steps = 2;
  config_.train.batch = 8;
  RunConfig mesh = config_;
  mesh.parallel.data = mesh.parallel.tensor = mesh.parallel.pipeline = 2;
  mesh.samples.prompts.resize(1);  // one data rank has none of them
  config_.samples.prompts.resize(1);
  expect_the_same_on(config_, mesh, 8);
}

TEST_F(SamplesOfARun, KnowPackingDropoutAdaptersAndCodes) {
  RunConfig packed = saving(), dropout = saving(), adapters = saving(), codes = saving();
  packed.data.packing = DataPacking::documents;
  dropout.model.architecture = "gpt2";
  dropout.model.config = {{"n_layer", 2},      {"n_embd", 32},      {"n_head", 4},        {"n_positions", 24},
                          {"vocab_size", 128}, {"embd_pdrop", 0.5}, {"resid_pdrop", 0.5}, {"attn_pdrop", 0}};
  dropout.train.dropout = true;
  adapters.adapter = {.type = AdapterType::dora, .rank = 3, .alpha = 6, .targets = {"q_proj"}, .path = ""};
  codes.adapter = {.type = AdapterType::lora, .rank = 3, .alpha = 6, .targets = {"q_proj"}, .path = ""};
  codes.memory.frozen_as = ParameterFormat::nf4;
  std::map<std::string, RunConfig> configs = {
      {"packed", packed}, {"dropout", dropout}, {"adapters", adapters}, {"codes", codes}};
  for (auto& [name, config] : configs) {
    config.checkpoint.path += name;
    SCOPED_TRACE(name);
    expect_generated(config);
  }
}

TEST_F(SamplesOfARun, OfSeveralModelsAreThoseOfEachAlone) {
  RunConfig other = config_, third = config_;
  other.train.seed = 7;
  other.samples.prompts = {"words", "line 4"};
  other.samples.every = 3;
  third.train.seed = 9;
  third.samples = {};
  const std::vector<RunConfig> configs = {config_, other, third};
  const test::JointOutcome outcome = test::run_together(configs);
  for (std::size_t m = 0; m < configs.size(); ++m)
    EXPECT_EQ(ids_of(outcome.results[m]), ids_of(run(configs[m]).result)) << m;
  test::expect_solo_bits(configs, outcome);
}

TEST_F(SamplesOfARun, OfSeveralPipelinesAreThoseOfEachAlone) {
  config_.parallel.pipeline = 2;
  RunConfig other = config_;
  other.train.seed = 7;
  other.samples.prompts = {"words"};
  other.samples.every = 3;
  const std::vector<RunConfig> configs = {config_, other};
  const std::vector<RunOutcome> alone[] = {run_ranks(config_, 2), run_ranks(other, 2)};
  for (const test::JointOutcome& rank : test::run_together_on(2, configs)) {
    for (std::size_t m = 0; m < 2; ++m)
      EXPECT_EQ(ids_of(rank.results[m]), ids_of(alone[m].front().result)) << m;
  }
}

TEST_F(SamplesOfARun, AreTakenAgainByARunThatGoesOn) {
  RunConfig config = saving();
  config.train.steps = 2;
  const Ids last = ids_of(run(config).result.samples.back());
  config.train.steps = 4;
  const RunOutcome outcome = run(config);
  ASSERT_EQ(outcome.result.samples.size(), 2U);
  EXPECT_EQ(outcome.result.samples.front().step, 2);
  EXPECT_EQ(ids_of(outcome.result.samples.front()), last);
}

/// A stop is known behind each token, on all ranks.
TEST_F(SamplesOfARun, EndSoonIfTheRunIsStopped) {
  class StopWhileSampling : public TrainListener {
   public:
    void on_sampling(const SamplingProgress& progress) override {
      rounds = progress.tokens;
      if (progress.tokens == 3) stop = true;
    }
    std::atomic<bool> stop = false;
    std::int64_t rounds = 0;
  };
  for (const int ranks : {1, 2}) {
    std::vector<StopWhileSampling> listeners(static_cast<std::size_t>(ranks));
    const std::vector<RunOutcome> outcomes = run_ranks(config_, ranks, [&](int rank) {
      StopWhileSampling& own = listeners[static_cast<std::size_t>(rank)];
      return test::RunOptions{.stop = rank == 0 ? &own.stop : nullptr, .listener = &own};
    });
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_LE(listeners[static_cast<std::size_t>(rank)].rounds, 4);
      const TrainResult& result = outcomes[static_cast<std::size_t>(rank)].result;
      EXPECT_TRUE(result.interrupted);
      EXPECT_TRUE(result.steps.empty());
      EXPECT_TRUE(result.samples.empty());
    }
  }
}

}  // namespace
}  // namespace strata
