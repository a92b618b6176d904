// Checkpoints have the moments of the rule by which their run updates, and say which rule that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/nth.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/tensor_policies.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "engine/run/checkpoint/manifest.h"
#include "engine/run/checkpoint/stored_state.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"
#include "tests/support/rule_in_run_file.h"

namespace strata {
namespace {

using test::expect_error;
using test::quick;
using test::State;
using test::TemporaryFolder;
using ::testing::HasSubstr;

class CheckpointOfRule : public ::testing::Test {
 protected:
  static Model model(UpdateRule rule, const std::vector<std::string>& freeze = {}) {
    OptimizerSection optimizer;
    test::set_rule(optimizer, rule);
    return build_model(test::tiny_llama().architecture, {.freeze = freeze, .optimizer = optimizer});
  }
  void save(const Model& model, State& state) {
    Progress progress;
    progress.counters.step = 1;
    CheckpointStore(folder_.path(), 2, quick()).save(model, progress, state.access());
  }
  std::string manifest() const { return read_file(saved() / "manifest.json"); }
  std::filesystem::path saved() const { return folder_.path() / "step-00000001"; }

  TemporaryFolder folder_;
};

// Invariant (CheckpointOfRule.*): An update rule keeps only its own moments.
TEST_F(CheckpointOfRule, HasItsMomentsAndGivesThemBack) {
  const std::map<UpdateRule, std::set<std::string>> files = {
      {UpdateRule::adamw, {"exp_avg.safetensors", "exp_avg_sq.safetensors"}},
      {UpdateRule::sgd, {}},
      {UpdateRule::sgd_momentum, {"momentum_buffer.safetensors"}},
      {UpdateRule::lion, {"exp_avg.safetensors"}},
      {UpdateRule::rmsprop, {"square_avg.safetensors"}},
      {UpdateRule::rmsprop_momentum, {"momentum_buffer.safetensors", "square_avg.safetensors"}},
      {UpdateRule::adagrad, {"sum.safetensors"}},
      {UpdateRule::ademamix, {"exp_avg.safetensors", "exp_avg_sq.safetensors", "exp_avg_slow.safetensors"}},
      {UpdateRule::adafactor, {"factors.safetensors"}},
      {UpdateRule::adagrad_rowwise, {"factors.safetensors"}},
      {UpdateRule::normuon,
       {"exp_avg.safetensors", "exp_avg_sq.safetensors", "momentum_buffer.safetensors",
        "factors.safetensors"}},
      {UpdateRule::muon, {"exp_avg.safetensors", "exp_avg_sq.safetensors", "momentum_buffer.safetensors"}}};
  EXPECT_EQ(files.size(), kUpdateRules.size());
  for (const auto& [rule, moments] : files) {
    for (const bool freezes : {false, true}) {
      std::filesystem::remove_all(saved());
      const Model model =
          this->model(rule, freezes ? std::vector<std::string>{"*.mlp.*"} : std::vector<std::string>{});
      State state(model, 1), loaded(model, 0);
      save(model, state);
      std::set<std::string> expected = moments;
      expected.insert({"manifest.json", "master.safetensors"});
      if (freezes) expected.insert("frozen.safetensors");
      EXPECT_EQ(test::names_in(saved()), expected);
      loaded.fill(7);
      ASSERT_TRUE(CheckpointStore(folder_.path(), 2, quick()).load_newest(model, loaded.access()));
      EXPECT_EQ(loaded, state);
      EXPECT_EQ(state_hash(model, loaded.access()), state_hash(model, state.access()));
    }
  }
}

TEST_F(CheckpointOfRule, SaysItUnlessItIsAdamW) {
  for (const UpdateRule rule : kUpdateRules) {
    const Model model = this->model(rule);
    State state(model, 1);
    std::filesystem::remove_all(saved());
    save(model, state);
    const bool is_adamw = rule == UpdateRule::adamw;
    const bool is_sgd = rule == UpdateRule::sgd || rule == UpdateRule::sgd_momentum;
    const bool is_alone = !orthogonalizes(rule);
    const std::string said = fmt::format("\"update_rule\": \"{}\"", name_of(rule));
    EXPECT_EQ(manifest().find(said) == std::string::npos, is_adamw || !is_alone);
    const int version = !is_alone ? 11 : is_adamw ? 3 : is_sgd ? 5 : 9;
    EXPECT_THAT(manifest(), HasSubstr(fmt::format("\"version\": {}", version)));
    EXPECT_TRUE(are_alike(parse_manifest(manifest(), "manifest.json").rules, model.rules()));
  }
}

TEST_F(CheckpointOfRule, IsRefusedByRunsOfAnother) {
  for (const UpdateRule rule : kUpdateRules) {
    const Model model = this->model(rule);
    State state(model, 1);
    std::filesystem::remove_all(saved());
    save(model, state);
    for (const UpdateRule wanted : kUpdateRules) {
      if (wanted == rule) continue;
      const Model other = this->model(wanted);
      State loaded(other, 0);
      const auto load = [&] {
        CheckpointStore(folder_.path(), 2, quick()).load_newest(other, loaded.access());
      };
      expect_error<ConfigError>(
          load, {saved().string(), fmt::format("is of a run with {}", run_file_words(model.rules())),
                 fmt::format("this one has {}", run_file_words(other.rules()))});
    }
  }
}

class CheckpointOfMuon : public CheckpointOfRule {
 protected:
  /// AdamW updates this matrix of each block instead.
  static Model model_with(const std::string& of_adamw, OptimizerType type = OptimizerType::muon) {
    OptimizerSection optimizer;
    optimizer.type = type;
    optimizer.groups = {{.tensors = {of_adamw}, .type = OptimizerType::adamw}};
    return build_model(test::tiny_llama().architecture, {.optimizer = optimizer});
  }
};

TEST_F(CheckpointOfMuon, SaysHowManyTensorsEachRuleUpdates) {
  const Model model = model_with("*.o_proj.weight");
  State state(model, 1);
  save(model, state);
  const UpdateRules rules = model.rules();
  EXPECT_THAT(manifest(),
              HasSubstr(fmt::format("\"update_rules\": {{\n    \"adamw\": {},\n    \"muon\": {}\n  }}",
                                    rules.at(UpdateRule::adamw), rules.at(UpdateRule::muon))));
  const Model all = this->model(UpdateRule::muon);
  State loaded(all, 0);
  expect_error<ConfigError>(
      [&] { CheckpointStore(folder_.path(), 2, quick()).load_newest(all, loaded.access()); },
      {"is of a run with optimizer.type adamw for", "types of optimizer.groups"});
}

TEST_F(CheckpointOfMuon, IsRefusedIfAsManyOtherTensorsAreMuons) {
  for (const OptimizerType type : {OptimizerType::muon, OptimizerType::normuon}) {
    std::filesystem::remove_all(saved());
    const Model model = model_with("*.o_proj.weight", type), other = model_with("*.q_proj.weight", type);
    State state(model, 1), loaded(other, 0);
    save(model, state);
    expect_error<ConfigError>(
        [&] { CheckpointStore(folder_.path(), 2, quick()).load_newest(other, loaded.access()); },
        {saved().string(), "has no", "_proj.weight, which another rule updated"});
  }
}

TEST_F(CheckpointOfMuon, IsReadByAModelThatKnowsNoRules) {
  const Model model = model_with("*.o_proj.weight", OptimizerType::normuon), plain = test::tiny_llama();
  State state(model, 1);
  save(model, state);
  StoredState stored(saved(), read_manifest(saved() / kManifestName), plain);
  for (std::size_t unit = 0; unit < plain.units.size(); ++unit) {
    for (const TensorSpec& tensor : plain.units[unit].tensors) {
      const TensorSpec& of_model =
          *std::ranges::find(model.units[unit].tensors, tensor.hf_name, &TensorSpec::hf_name);
      std::vector<float> values(static_cast<std::size_t>(tensor.elements));
      stored.read(unit, StateKey::master, {tensor.offset, tensor.elements}, values);
      EXPECT_TRUE(std::ranges::equal(values, slice(state.flat(unit), of_model.offset, tensor.elements)))
          << tensor.hf_name;
    }
  }
}

TEST_F(CheckpointOfMuon, ThatLacksATensorOfAMomentIsDamaged) {
  const Model model = this->model(UpdateRule::muon);
  State state(model, 1);
  save(model, state);
  Manifest manifest = read_manifest(saved() / kManifestName);
  ++manifest.rules.at(UpdateRule::muon);
  expect_error<DamageError>([&] { StoredState(saved(), manifest, model); },
                            {"momentum_buffer has", "the checkpoint is damaged"});
}

TEST_F(CheckpointOfRule, ThatLacksAFactorIsDamaged) {
  const Model model = this->model(UpdateRule::adafactor);
  Model without = model;
  without.units[1].factors.pop_back();
  State state(without, 1);
  save(without, state);
  expect_error<DamageError>(
      [&] { StoredState(saved(), read_manifest(saved() / kManifestName), model); },
      {"factors of tensor", "exp_avg_sq", "lacks element 0", "the checkpoint is damaged"});
}

TEST(RunFileWords, TellRulesApart) {
  EXPECT_EQ(run_file_words(UpdateRule::adamw), "optimizer.type adamw");
  EXPECT_EQ(run_file_words(UpdateRule::lion), "optimizer.type lion");
  EXPECT_EQ(run_file_words(UpdateRule::adagrad), "optimizer.type adagrad");
  EXPECT_EQ(run_file_words(UpdateRule::ademamix), "optimizer.type ademamix");
  EXPECT_EQ(run_file_words(UpdateRule::adafactor), "optimizer.type adafactor");
  EXPECT_EQ(run_file_words(UpdateRule::normuon), "optimizer.type normuon");
  EXPECT_EQ(run_file_words(UpdateRule::adagrad_rowwise), "optimizer.type adagrad_rowwise");
  EXPECT_EQ(run_file_words(UpdateRule::sgd), "optimizer.type sgd without momentum");
  EXPECT_EQ(run_file_words(UpdateRule::sgd_momentum), "optimizer.type sgd with momentum");
  EXPECT_EQ(run_file_words(UpdateRule::rmsprop), "optimizer.type rmsprop without momentum");
  EXPECT_EQ(run_file_words(UpdateRule::rmsprop_momentum), "optimizer.type rmsprop with momentum");
}

}  // namespace
}  // namespace strata
