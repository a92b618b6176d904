// Any mix of models leaves what each leaves alone: state, losses and checkpoints, within budgets near the
// smallest, with steps and saves of their own, and also if the run is stopped and goes on.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/safetensors.h"
#include "tests/execute/several_models.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::JointOutcome;
using test::losses_of;
using test::run_together;
using test::StopAfter;
using test::TemporaryFolder;
using test::tiny_run;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(engine_()) % count; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }

 private:
  std::mt19937 engine_;
};

void choose_model(ModelSection& model, Random& random) {
  model.architecture = random.one_of<std::string>({"llama", "gpt2", "qwen3_moe"});
  nlohmann::json& keys = model.config;
  keys["num_hidden_layers"] = 1 + random.below(3);
  keys["tie_word_embeddings"] = random.below(2) == 0;
  if (model.architecture == "qwen3_moe") {
    keys.update({{"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 16},
                 {"router_aux_loss_coef", 0.1},
                 {"output_router_logits", true}});
  } else if (model.architecture == "gpt2") {
    keys = {{"n_layer", 1 + random.below(2)}, {"n_embd", 24}, {"n_head", 3}, {"vocab_size", 128}};
  }
}

RunConfig any_run(const fs::path& folder, Random& random) {
  RunConfig config = tiny_run(folder);
  choose_model(config.model, random);
  config.train.steps = 1 + random.below(6);
  config.train.microbatch = 1 + random.below(2);
  config.train.batch = config.train.microbatch * (1 + random.below(3));
  config.train.precision = random.one_of({DType::fp32, DType::bf16, DType::fp16});
  config.train.seed = static_cast<std::uint64_t>(random.below(100));
  config.optimizer.learning_rate = random.one_of({1e-2, 3e-3});
  config.optimizer.clip_norm = random.one_of({0.0, 1.0});
  config.checkpoint.every = random.below(4);
  if (random.below(3) == 0) {
    config.train.validate_every = 1 + random.below(3);
    config.train.validation_batches = 1 + random.below(2);
  }
  return config;
}

/// Two to four models of any kind in one run, whose checkpoints go to folders of their own.
std::vector<RunConfig> any_mix(const fs::path& folder, std::uint32_t seed) {
  Random random(seed);
  std::vector<RunConfig> configs;
  for (std::int64_t count = 2 + random.below(3); count > 0; --count) {
    RunConfig& config = configs.emplace_back(any_run(folder, random));
    config.checkpoint.path = (folder / ("together-" + std::to_string(configs.size()))).string();
  }
  const LaneMode lanes = random.one_of({LaneMode::serial, LaneMode::overlapped, LaneMode::overlapped});
  for (RunConfig& config : configs) config.plan.lanes = lanes;
  return configs;
}

void set_memory(std::vector<RunConfig>& configs, const MemorySection& memory) {
  for (RunConfig& config : configs) config.memory = memory;
}

/// The smallest budgets of a geometric series that the models can be planned in.
void tighten(std::vector<RunConfig>& configs, const fs::path& drive) {
  MemorySection memory = configs.front().memory;
  const auto raise = [&](Bytes& budget) {
    while (!test::joint_refusal(configs).empty()) {
      budget += budget / 4;
      set_memory(configs, memory);
    }
  };
  memory.device = 48 * KiB;
  memory.host = kUnlimited;
  set_memory(configs, memory);
  raise(memory.device);
  memory.nvme_path = {drive.string()};
  memory.nvme_size = 64 * MiB;
  memory.host = 96 * KiB;
  set_memory(configs, memory);
  raise(*memory.host);
}

/// The tensors of all checkpoints in a folder, by file and name.
std::map<std::string, std::vector<float>> checkpoints_in(const fs::path& folder) {
  std::map<std::string, std::vector<float>> tensors;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsReader file(entry.path());
    for (const auto& [name, tensor] : file.tensors()) {
      std::vector<float>& values = tensors[fs::relative(entry.path(), folder).string() + " " + name];
      values.resize(static_cast<std::size_t>(tensor.elements));
      file.read(name, 0, values);
    }
  }
  return tensors;
}

RunConfig alone(RunConfig config, const fs::path& folder) {
  config.checkpoint.path = (folder / "alone").string();
  config.memory = tiny_run(folder).memory;
  config.plan.lanes = LaneMode::serial;
  fs::remove_all(config.checkpoint.path);
  return config;
}

void expect_what_is_left_alone(const std::vector<RunConfig>& configs, const JointOutcome& outcome,
                               const fs::path& folder) {
  for (std::size_t m = 0; m < configs.size(); ++m) {
    SCOPED_TRACE(m);
    const RunConfig config = alone(configs[m], folder);
    const TrainResult solo = test::run(config).result;
    const TrainResult& result = outcome.results[m];
    EXPECT_EQ(result.state_hash, solo.state_hash);
    EXPECT_EQ(losses_of(result), losses_of(solo));
    EXPECT_EQ(result.saves, solo.saves);
    EXPECT_EQ(result.counters.step, config.train.steps);
    EXPECT_TRUE(checkpoints_in(configs[m].checkpoint.path) == checkpoints_in(config.checkpoint.path));
  }
  test::expect_the_plans_were_exact(outcome);
}

class MixedModels : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  const TemporaryFolder folder_;
  std::vector<RunConfig> configs_ = any_mix(folder_.path(), GetParam());
};

TEST_P(MixedModels, LeaveWhatEachLeavesAlone) {
  expect_what_is_left_alone(configs_, run_together(configs_), folder_.path());
}

TEST_P(MixedModels, LeaveItWithinBudgetsNearTheSmallest) {
  tighten(configs_, folder_.path());
  expect_what_is_left_alone(configs_, run_together(configs_), folder_.path());
}

/// The run is stopped when one of its models has done some steps, and once more after it has gone on.
TEST_P(MixedModels, GoOnToTheSameBits) {
  if (GetParam() % 2 == 0) tighten(configs_, folder_.path());
  Random random(GetParam());
  TrainListener silent;
  for (int stops = 0; stops < 2; ++stops) {
    const auto asks = static_cast<std::size_t>(random.below(std::ssize(configs_)));
    std::atomic<bool> stop = false;
    StopAfter stopper(1 + random.below(configs_[asks].train.steps), stop);
    std::vector<TrainListener*> listeners(configs_.size(), &silent);
    listeners[asks] = &stopper;
    const JointOutcome outcome = run_together(configs_, {.stop = &stop, .listeners = listeners});
    for (std::size_t m = 0; m < configs_.size(); ++m) {
      const TrainResult& result = outcome.results[m];
      EXPECT_EQ(result.interrupted, result.counters.step < configs_[m].train.steps);
    }
  }
  const JointOutcome outcome = run_together(configs_);
  for (std::size_t m = 0; m < configs_.size(); ++m) {
    SCOPED_TRACE(m);
    EXPECT_EQ(outcome.results[m].state_hash, test::run(alone(configs_[m], folder_.path())).result.state_hash);
    EXPECT_EQ(outcome.results[m].counters.step, configs_[m].train.steps);
  }
}

INSTANTIATE_TEST_SUITE_P(Mixes, MixedModels, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace strata
