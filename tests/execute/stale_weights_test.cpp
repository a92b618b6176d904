// Asynchronous pipelines train as a plain loop on one rank does that says for each stage which version of its
// weights a forward and backward pass uses: whatever data-parallel ranks share out, wherever state lives.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/tune/stages.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using enum PipelineSchedule;
using test::expect_the_plan_was_exact;
using test::run;
using test::run_ranks;
using test::RunOptions;
using test::RunOutcome;

struct StaleLayout {
  PipelineSchedule schedule = pipedream_2bw;
  int stages = 2, data = 1, zero_stage = 3;
  bool clips = false;
  int ranks() const { return stages * data; }
};

std::string name_of(const StaleLayout& layout) {
  return fmt::format("{}_{}_stages_{}_data_stage_{}{}",
                     layout.schedule == pipedream ? "pipedream" : "pipedream_2bw", layout.stages, layout.data,
                     layout.zero_stage, layout.clips ? "_clipped" : "");
}

constexpr std::int64_t kStaleSteps = 6, kMicrobatches = 4;

using Values = std::vector<float>;
/// What a unit's update of a number reads and leaves, put together from what ranks have of it.
using Update = std::pair<std::size_t, std::int64_t>;

double distance(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  return std::sqrt(sum);
}
double norm(const Values& values) {
  return distance(values, Values(values.size(), 0));
}

/// torch.optim.AdamW's formulas without decay, in doubles.
class PlainAdamW {
 public:
  explicit PlainAdamW(const OptimizerSection& optimizer) : optimizer_(optimizer) {}

  Values updated(const Values& weights, const Values& gradient, double factor) {
    ++updates_;
    m_.resize(weights.size());
    v_.resize(weights.size());
    const auto [beta1, beta2] = betas_of(optimizer_);
    const double of_m = 1 - std::pow(beta1, updates_), of_v = 1 - std::pow(beta2, updates_);
    Values result(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double g = factor * gradient[i];
      m_[i] = beta1 * m_[i] + (1 - beta1) * g;
      v_[i] = beta2 * v_[i] + (1 - beta2) * g * g;
      result[i] = static_cast<float>(weights[i] - optimizer_.learning_rate * (m_[i] / of_m) /
                                                      (std::sqrt(v_[i] / of_v) + epsilon_of(optimizer_)));
    }
    return result;
  }

 private:
  OptimizerSection optimizer_;
  double updates_ = 0;
  std::vector<double> m_, v_;
};

class StaleWeightsTest : public ::testing::Test {
 protected:
  RunConfig config(const StaleLayout& layout) const {
    RunConfig config = alone(layout);
    config.train.batch = kMicrobatches * layout.data;
    config.train.steps = kStaleSteps;
    config.parallel.data = layout.data;
    config.parallel.zero_stage = layout.zero_stage;
    config.parallel.pipeline = layout.stages;
    config.parallel.schedule = layout.schedule;
    return config;
  }
  /// Each step has what an update has.
  RunConfig alone(const StaleLayout& layout) const {
    RunConfig config = test::tiny_run(folder_.path());
    const bool is_each = layout.schedule == pipedream;
    config.model.config["num_hidden_layers"] = 5;
    config.model.config["tie_word_embeddings"] = false;
    config.train.batch = (is_each ? 1 : kMicrobatches) * layout.data;
    config.train.microbatch = 1;
    config.train.steps = kStaleSteps * (is_each ? kMicrobatches : 1);
    config.train.precision = DType::fp32;
    config.optimizer.learning_rate = 1e-3;  // with more, last bits grow within the steps to more than 1e-5
    config.train.threads = 1;
    config.schedule.type = ScheduleType::constant;
    config.schedule.warmup = 0;
    config.optimizer.weight_decay = 0;
    // Where a gradient is next to nothing the direction of its update would be chance.
    config.optimizer.epsilon = 1e-3;
    config.optimizer.clip_norm = layout.clips ? 0.5 : 0;
    return config;
  }

  test::TemporaryFolder folder_;
};

/// How many updates the weights of a unit's passes lack.
std::function<std::int64_t(std::size_t unit)> lag_of(const StaleLayout& layout, const RunConfig& config) {
  const std::vector<std::int32_t> first_units = cut_into_stages(config, test::model_of(config));
  return [=](std::size_t unit) -> std::int64_t {
    if (layout.schedule == pipedream_2bw) return 1;
    const auto stage =
        std::ranges::upper_bound(first_units, static_cast<std::int32_t>(unit)) - first_units.begin() - 1;
    return layout.stages - 1 - stage;
  };
}

/// The plain loop: step k computes with version max(first, k - lag) of each unit's weights, where `first` is
/// the latest step so far at which the pipeline was empty; its gradients update the newest version.
struct StaleReference {
  std::map<Update, Values> gradients;
  std::vector<std::vector<Values>> versions;  ///< of each unit
  std::vector<double> losses;
};

StaleReference train_with_stale_weights(const RunConfig& config,
                                        const std::function<std::int64_t(std::size_t unit)>& lag,
                                        std::int64_t drains_every = INT64_MAX) {
  StaleReference reference;
  const Model model = test::model_of(config);
  reference.versions.resize(model.units.size());
  std::vector<PlainAdamW> optimizers(model.units.size(), PlainAdamW(config.optimizer));
  std::vector<std::int64_t> done(model.units.size(), 0);
  const auto look = [&](const Instruction& instruction, Trainer& trainer) {
    if (reference.versions[0].empty()) {
      for (std::size_t u = 0; u < model.units.size(); ++u) {
        const std::span<const float> values = trainer.state().read(u, StateKey::master);
        reference.versions[u].emplace_back(values.begin(), values.end());
      }
    }
    if (instruction.unit < 0) return;
    const auto u = static_cast<std::size_t>(instruction.unit);
    if (instruction.operation == Operation::sum_of_squares) {
      const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::gradient));
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      reference.gradients[{u, done[u]}].assign(values, values + model.units[u].elements);
    } else if (instruction.operation == Operation::update) {
      double squares = 0;
      for (std::size_t other = 0; other < model.units.size(); ++other)
        squares +=
            config.optimizer.clip_norm == 0 ? 0 : std::pow(norm(reference.gradients[{other, done[u]}]), 2);
      const double factor =
          squares == 0 ? 1 : std::min(1.0, config.optimizer.clip_norm / (std::sqrt(squares) + 1e-6));
      std::vector<Values>& versions = reference.versions[u];
      versions.push_back(optimizers[u].updated(versions.back(), reference.gradients[{u, done[u]}], factor));
      const std::int64_t next = ++done[u], first = next / drains_every * drains_every;
      const auto used = static_cast<std::size_t>(std::max(first, next - lag(u)));
      trainer.state().write(u, StateKey::master, [&](std::span<float> weights) {
        std::ranges::copy(versions[used], weights.begin());
      });
    }
  };
  RunConfig serial = config;
  serial.plan.lanes = LaneMode::serial;
  for (const StepReport& step : run(serial, {.observer = look}).result.steps)
    reference.losses.push_back(step.loss);
  return reference;
}

/// What the ranks of a pipeline update with, and the weights that they end with.
struct Pipeline {
  std::map<Update, Values> gradients;
  std::vector<Values> weights;  ///< of each unit
  std::vector<RunOutcome> ranks;
};

Pipeline train_pipeline(RunConfig config, int ranks) {
  Pipeline pipeline;
  const Model model = test::model_of(config);
  config.plan.lanes = LaneMode::serial;
  std::mutex mutex;
  std::map<std::pair<int, std::size_t>, std::int64_t> done;
  pipeline.weights.resize(model.units.size());
  pipeline.ranks = run_ranks(config, ranks, [&](int rank) {
    return RunOptions{.observer = [&, rank](const Instruction& instruction, Trainer& trainer) {
      if (instruction.unit < 0) return;
      const auto u = static_cast<std::size_t>(instruction.unit);
      const FlatRange held = trainer.state().held(u, Flat::trained);
      const auto put = [&](Values& all, const float* values) {
        all.resize(static_cast<std::size_t>(model.units[u].elements));
        std::copy(values, values + held.count, all.begin() + held.first);
      };
      const std::lock_guard lock(mutex);
      if (instruction.operation == Operation::sum_of_squares) {
        const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::gradient));
        put(pipeline.gradients[{u, done[{rank, u}]++}], reinterpret_cast<const float*>(bytes.data()));
      } else if (instruction.operation == Operation::update) {
        const std::span<const std::byte> bytes = trainer.state().read(instruction.find(Role::parameter));
        put(pipeline.weights[u], reinterpret_cast<const float*>(bytes.data()));
      }
    }};
  });
  return pipeline;
}

/// Per tensor; reports what differs more.
void expect_near(const Model& model, std::size_t u, const Values& values, const Values& expected,
                 const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (const TensorSpec& tensor : model.units[u].tensors) {
    const auto part = [&](const Values& of) {
      return Values(of.begin() + tensor.offset, of.begin() + tensor.offset + tensor.elements);
    };
    EXPECT_LE(distance(part(values), part(expected)), 1e-5 * norm(part(expected)))
        << what << " of " << tensor.hf_name;
  }
}

class StaleWeights : public StaleWeightsTest, public ::testing::WithParamInterface<StaleLayout> {};

// Invariant of ranks (StaleWeights.*): Stale weights are those of the schedule. The schedules pipedream and
// pipedream_2bw follow a plain loop on one rank that says which version each stage uses. Losses, gradients
// and final weights agree within 1e-5.
TEST_P(StaleWeights, AreThoseOfAPlainLoopThatSaysWhichVersionEachStageUses) {
  const RunConfig config = this->config(GetParam()), alone = this->alone(GetParam());
  const Model model = test::model_of(config);
  const StaleReference expected = train_with_stale_weights(alone, lag_of(GetParam(), config));
  const Pipeline pipeline = train_pipeline(config, GetParam().ranks());
  const std::int64_t per_step = GetParam().schedule == pipedream ? kMicrobatches : 1;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (std::int64_t update = 0; update < kStaleSteps * per_step; ++update) {
      expect_near(model, u, pipeline.gradients.at({u, update}), expected.gradients.at({u, update}),
                  fmt::format("gradient {}", update));
    }
    expect_near(model, u, pipeline.weights[u], expected.versions[u].back(), "weights");
  }
  for (const RunOutcome& rank : pipeline.ranks) {
    expect_the_plan_was_exact(rank);
    for (std::int64_t step = 0; step < kStaleSteps; ++step) {
      double loss = 0;
      for (std::int64_t i = 0; i < per_step; ++i)
        loss += expected.losses[static_cast<std::size_t>(step * per_step + i)] / double(per_step);
      EXPECT_NEAR(rank.result.steps[static_cast<std::size_t>(step)].loss, loss, 1e-5 * loss) << step;
    }
  }
}

/// The control: the same loop with another rule is told from it.
// Invariant (StaleWeightsTest.*): Stale weights are those of the schedule.
TEST_F(StaleWeightsTest, AreToldFromAnyOtherVersion) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    const StaleLayout layout = {.schedule = schedule, .stages = 4};
    const RunConfig config = this->config(layout);
    const auto lag = lag_of(layout, config);
    const StaleReference expected = train_with_stale_weights(alone(layout), lag);
    for (const std::int64_t more : {-1, 1}) {
      const StaleReference other = train_with_stale_weights(alone(layout), [&](std::size_t u) {
        return std::max<std::int64_t>(0, lag(u) + (u == 0 ? more : 0));
      });
      EXPECT_GT(distance(other.versions[0].back(), expected.versions[0].back()),
                1e-3 * norm(expected.versions[0].back()));
    }
  }
}

TEST_F(StaleWeightsTest, HaveTheSameBitsWhereverStateLives) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    for (const int zero_stage : {0, 3}) {
      std::set<std::string> hashes;
      const StaleLayout layout = {schedule, 2, 2, zero_stage, schedule == pipedream_2bw};
      for (const bool on_host : {false, true}) {
        for (const Recompute recompute : {Recompute::full, Recompute::none}) {
          for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
            RunConfig config = this->config(layout);
            config.train.precision = DType::bf16;
            config.train.recompute = recompute;
            config.plan.lanes = lanes;
            if (on_host) config.memory.device = test::smallest_bytes(config);
            for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
              hashes.insert(rank.result.state_hash);
              expect_the_plan_was_exact(rank);
            }
          }
        }
      }
      EXPECT_EQ(hashes.size(), 1U) << name_of(layout);
    }
  }
}

TEST_F(StaleWeightsTest, HaveTheSameBitsOnADrive) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    const StaleLayout layout = {schedule, 2, 2};
    RunConfig config = this->config(layout);
    const std::string hash = run_ranks(config, layout.ranks())[0].result.state_hash;
    config.memory.device = test::smallest_bytes(config);
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.parameters = config.memory.optimizer_state = config.memory.activations = TierChoice::nvme;
    for (const RunOutcome& rank : run_ranks(config, layout.ranks())) {
      EXPECT_EQ(rank.result.state_hash, hash);
      expect_the_plan_was_exact(rank);
    }
  }
}

/// A pipeline is empty where a step is saved: what goes on from there does what the run does that saved it.
TEST_F(StaleWeightsTest, GoOnFromACheckpointToTheSameBits) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    const StaleLayout layout = {.schedule = schedule, .stages = 3, .clips = schedule == pipedream_2bw};
    RunConfig config = this->config(layout);
    config.checkpoint.every = 2;
    config.checkpoint.path = (folder_.path() / ("whole" + name_of(layout))).string();
    const RunOutcome whole = run_ranks(config, layout.ranks())[0];
    EXPECT_EQ(whole.result.saves, kStaleSteps / 2);
    config.checkpoint.path = (folder_.path() / ("parts" + name_of(layout))).string();
    config.train.steps = 4;
    EXPECT_EQ(run_ranks(config, layout.ranks())[0].result.counters.step, 4);
    config.train.steps = kStaleSteps;
    const RunOutcome rest = run_ranks(config, layout.ranks())[0];
    EXPECT_EQ(rest.result.steps.size(), 2U);
    EXPECT_EQ(rest.result.state_hash, whole.result.state_hash);
    // One rank goes on from it, without staleness.
    RunConfig alone = this->alone(layout);
    alone.train.batch = config.train.batch;
    alone.train.steps = kStaleSteps + 1;
    alone.checkpoint.path = config.checkpoint.path;
    EXPECT_EQ(run(alone).result.steps.size(), 1U);
  }
}

/// Validations and saves empty it, too.
TEST_F(StaleWeightsTest, BeginAnewBehindAValidation) {
  const StaleLayout layout = {.stages = 2};
  RunConfig config = this->config(layout);
  config.train.validate_every = 2;
  config.train.validation_batches = 3;
  config.data.validation_fraction = 0.1;
  RunConfig alone = this->alone(layout);
  alone.train.validate_every = config.train.validate_every;
  alone.train.validation_batches = config.train.validation_batches;
  alone.data.validation_fraction = config.data.validation_fraction;
  const Model model = test::model_of(config);
  const StaleReference expected = train_with_stale_weights(alone, lag_of(layout, config), 2);
  const Pipeline pipeline = train_pipeline(config, layout.ranks());
  for (std::size_t u = 0; u < model.units.size(); ++u)
    expect_near(model, u, pipeline.weights[u], expected.versions[u].back(), "weights");
  EXPECT_EQ(pipeline.ranks[0].result.validation.size(), 4U);
}

TEST_F(StaleWeightsTest, EndTogetherWhereAnyStageIsStopped) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    const StaleLayout layout = {.schedule = schedule, .stages = 3};
    RunConfig config = this->config(layout);
    config.train.steps = 20;
    for (const int stopped : {0, 1, 2}) {
      std::atomic<bool> stop = false;
      test::StopAfter listener(2, stop);
      std::set<std::int64_t> steps;
      std::set<std::string> hashes;
      for (const RunOutcome& rank : run_ranks(config, 3, [&](int rank) {
             return rank == stopped ? RunOptions{.stop = &stop, .listener = &listener} : RunOptions{};
           })) {
        EXPECT_TRUE(rank.result.interrupted);
        steps.insert(rank.result.counters.step);
        hashes.insert(rank.result.state_hash);
      }
      EXPECT_EQ(steps.size(), 1U);
      EXPECT_EQ(hashes.size(), 1U);
      config.train.steps = *steps.begin();
      EXPECT_EQ(run_ranks(config, 3)[0].result.state_hash, *hashes.begin());
      config.train.steps = 20;
    }
  }
}

TEST_F(StaleWeightsTest, GoWithFrozenTensorsAndExperts) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    for (const std::vector<std::string>& freeze :
         {std::vector<std::string>{"model.layers.0.*", "model.layers.1.*"}, {"model.embed_tokens.*"}}) {
      const StaleLayout layout = {.schedule = schedule, .stages = 3};
      RunConfig config = this->config(layout);
      config.train.freeze = freeze;
      for (const RunOutcome& rank : run_ranks(config, layout.ranks())) expect_the_plan_was_exact(rank);
    }
    RunConfig config = this->config({.schedule = schedule, .stages = 3});
    config.model.architecture = "mixtral";
    config.model.config = {{"num_hidden_layers", 5},     {"hidden_size", 16},
                           {"num_attention_heads", 4},   {"num_key_value_heads", 2},
                           {"intermediate_size", 20},    {"num_local_experts", 4},
                           {"vocab_size", 128},          {"output_router_logits", true},
                           {"router_aux_loss_coef", 0.5}};
    for (const RunOutcome& rank : run_ranks(config, 3)) expect_the_plan_was_exact(rank);
  }
}

std::vector<StaleLayout> stale_layouts() {
  return {{.schedule = pipedream_2bw, .stages = 2},
          {.schedule = pipedream_2bw, .stages = 4},
          {.schedule = pipedream_2bw, .stages = 4, .clips = true},
          {.schedule = pipedream_2bw, .data = 2, .zero_stage = 0},
          {.schedule = pipedream_2bw, .data = 2, .zero_stage = 1, .clips = true},
          {.schedule = pipedream_2bw, .data = 2, .zero_stage = 2},
          {.schedule = pipedream_2bw, .data = 2, .zero_stage = 3},
          {.schedule = pipedream, .stages = 2},
          {.schedule = pipedream, .stages = 4},
          {.schedule = pipedream, .data = 2, .zero_stage = 0},
          {.schedule = pipedream, .data = 2, .zero_stage = 1},
          {.schedule = pipedream, .data = 2, .zero_stage = 2},
          {.schedule = pipedream, .data = 2, .zero_stage = 3}};
}
INSTANTIATE_TEST_SUITE_P(Layouts, StaleWeights, ::testing::ValuesIn(stale_layouts()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace strata
