// train.ema: moving averages of what is trained, beside any rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/generate/model_source.h"
#include "engine/run/generate/saved_model.h"
#include "tests/base/expect_error.h"
#include "tests/execute/placements.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"
#include "tests/support/rule_in_run_file.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::hashes_of_two_ranks;
using test::left_by;
using test::run;
using test::run_ranks;
using test::TemporaryFolder;
using test::Tensors;

constexpr double kDecay = 0.75;

class EmaRun : public ::testing::Test {
 protected:
  RunConfig config(UpdateRule rule = UpdateRule::adamw) const {
    RunConfig config = test::tiny_run(folder_.path());
    config.train.threads = 1;
    test::set_rule(config.optimizer, rule);
    config.ema.decay = kDecay;
    return config;
  }
  /// There is one of every rule, and one in every format of average and master.
  std::vector<RunConfig> ways() const {
    std::vector<RunConfig> all(kUpdateRules.size());
    std::ranges::transform(kUpdateRules, all.begin(), [&](UpdateRule rule) { return config(rule); });
    for (const MasterFormat master : {MasterFormat::fp32, MasterFormat::split, MasterFormat::none}) {
      for (const AverageFormat format : {AverageFormat::fp32, AverageFormat::bf16}) {
        all.push_back(config());
        all.back().optimizer.master = master;
        all.back().ema.format = format;
      }
    }
    all.push_back(config());
    all.back().train.precision = DType::fp32;
    all.back().ema.every = 2;
    return all;
  }
  std::string checkpoints() const { return (folder_.path() / "out").string(); }

  const TemporaryFolder folder_;
};

// Invariant of numbers (EmaRun.*): Averages are those of the weights of each step. They change nothing else,
// and no placement, rank or resume changes a bit of them. Commands read them in the place of weights.
TEST_F(EmaRun, AveragesTheWeightsOfEachStepAndChangesNothingElse) {
  RunConfig config = this->config();
  config.train.precision = DType::fp32;
  RunConfig without = config;
  without.ema = {};
  Tensors expected;
  for (std::int64_t steps = 1; steps <= 4; ++steps) {
    config.train.steps = without.train.steps = steps;
    const Tensors weights = left_by(without, {StateKey::master});
    for (const auto& [name, values] : weights) {
      std::vector<float>& average = expected[name];
      if (steps == 1) average = values;
      for (std::size_t i = 0; i < values.size(); ++i)
        average[i] += static_cast<float>(1 - kDecay) * (values[i] - average[i]);
    }
    EXPECT_EQ(left_by(config, {StateKey::master}), weights);
    const Tensors averages = left_by(config, {key_of(Moment::ema)});
    ASSERT_EQ(averages.size(), expected.size());
    for (const auto& [name, values] : averages) {
      const std::string tensor = name.substr(0, name.find(' '));
      const std::vector<float>& wanted = expected.at(tensor + " master");
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-6) << name;
    }
  }
}

TEST_F(EmaRun, PlacementChangesNoBit) {
  for (const RunConfig& config : ways())
    test::expect_the_same_bits_wherever_state_lives(config, folder_.path());
}

TEST_F(EmaRun, RanksAndStagesHaveTheSameBitsWhereverStateLives) {
  std::set<std::string> hashes;
  for (const int stage : {0, 1, 2, 3}) {
    RunConfig config = this->config();
    config.train.microbatch = 1;
    config.parallel.data = 2;
    config.parallel.zero_stage = stage;
    hashes.merge(hashes_of_two_ranks(config));
  }
  EXPECT_EQ(hashes.size(), 1U);
  for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::pipedream}) {
    RunConfig config = this->config(UpdateRule::sgd);
    config.model.config["tie_word_embeddings"] = false;
    config.optimizer.clip_norm = 0;
    config.parallel.pipeline = 2;
    config.parallel.schedule = schedule;
    EXPECT_EQ(hashes_of_two_ranks(config).size(), 1U);
  }
  RunConfig tensor = this->config();
  tensor.parallel.tensor = 2;
  EXPECT_EQ(hashes_of_two_ranks(tensor).size(), 1U);
}

TEST_F(EmaRun, ResumesToTheSameBits) {
  for (RunConfig config : ways()) {
    const std::string straight = run(config).result.state_hash;
    config.checkpoint.path = checkpoints();
    config.checkpoint.every = 1;
    config.train.steps = 2;
    test::QueuedDevice queued({.threads = 2, .link = {}});
    run(config, {.device = &queued, .fresh = true});
    config.train.steps = 4;
    EXPECT_EQ(run(config, {.device = &queued}).result.state_hash, straight);
  }
}

TEST_F(EmaRun, IsNeitherLostNorBegunOnTheWay) {
  RunConfig with = config();
  with.checkpoint.path = checkpoints();
  with.train.steps = 1;
  RunConfig without = with;
  without.ema = {};
  run(with);
  test::expect_error<ConfigError>([&] { run(without); }, {"step-00000001", "has moving averages",
                                                          "set train.ema.decay as there", "--fresh"});
  run(without, {.fresh = true});
  test::expect_error<ConfigError>([&] { run(with); },
                                  {"step-00000001", "without train.ema", "take train.ema out"});
}

/// All trained values of the model as a command reads them.
std::vector<float> read_all(const ModelSource& source) {
  std::vector<float> all;
  for (std::size_t u = 0; u < source.model->units.size(); ++u) {
    for (const TensorSpec& tensor : source.model->units[u].tensors) {
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      source.read(u, {tensor.offset, tensor.elements, tensor.flat}, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

std::vector<float> in_order_of(const ModelSource& source, const Tensors& tensors, const std::string& kind) {
  std::vector<float> all;
  for (const Unit& unit : source.model->units) {
    for (const TensorSpec& tensor : unit.tensors) {
      const std::vector<float>& values = tensors.at(tensor.hf_name + " " + kind);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

TEST_F(EmaRun, IsWhatCommandsReadInThePlaceOfWeights) {
  for (const UpdateRule rule : kUpdateRules) {
    RunConfig config = this->config(rule);
    const Tensors left = left_by(config, {StateKey::master, key_of(Moment::ema)});
    config.checkpoint.path = checkpoints();
    run(config, {.fresh = true});
    const ModelSource weights = open_model(checkpoints(), {}, ""),
                      averages = open_model(checkpoints(), {.averaged = true}, "");
    EXPECT_EQ(read_all(weights), in_order_of(weights, left, "master")) << name_of(rule);
    EXPECT_EQ(read_all(averages), in_order_of(averages, left, "ema")) << name_of(rule);
  }
}

TEST_F(EmaRun, IsAskedForWhereThereIsOne) {
  const auto open = [&] { open_model(checkpoints(), {.averaged = true}, ""); };
  RunConfig config = this->config();
  config.checkpoint.path = checkpoints();
  config.train.precision = DType::fp16;
  config.train.loss_scale_initial = 1e38;  // no step updates
  config.train.steps = 1;
  run(config);
  test::expect_error<ConfigError>(open, {"--ema", "step-00000001", "has made no update"});
  config.ema = {};
  run(config, {.fresh = true});
  test::expect_error<ConfigError>(open, {"--ema", "step-00000001", "without train.ema"});
}

}  // namespace
}  // namespace strata
