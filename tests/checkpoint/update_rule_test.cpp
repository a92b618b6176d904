// Checkpoints have the moments of the rule by which their run updates, and say which rule that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/file.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/tensor_policies.h"
#include "engine/run/checkpoint/checkpoint.h"
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
    progress.step = 1;
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
      {UpdateRule::ademamix, {"exp_avg.safetensors", "exp_avg_sq.safetensors", "exp_avg_slow.safetensors"}}};
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
    const std::string said = fmt::format("\"update_rule\": \"{}\"", name_of(rule));
    EXPECT_EQ(manifest().find(said) == std::string::npos, is_adamw);
    EXPECT_THAT(manifest(), HasSubstr(fmt::format("\"version\": {}", is_adamw ? 3 : is_sgd ? 5 : 9)));
    EXPECT_EQ(parse_manifest(manifest(), "manifest.json").rule, rule);
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
      expect_error<ConfigError>(load,
                                {saved().string(), fmt::format("is of a run with {}", run_file_words(rule)),
                                 fmt::format("this one has {}", run_file_words(wanted))});
    }
  }
}

TEST(RunFileWords, TellRulesApart) {
  EXPECT_EQ(run_file_words(UpdateRule::adamw), "optimizer.type adamw");
  EXPECT_EQ(run_file_words(UpdateRule::lion), "optimizer.type lion");
  EXPECT_EQ(run_file_words(UpdateRule::adagrad), "optimizer.type adagrad");
  EXPECT_EQ(run_file_words(UpdateRule::ademamix), "optimizer.type ademamix");
  EXPECT_EQ(run_file_words(UpdateRule::sgd), "optimizer.type sgd without momentum");
  EXPECT_EQ(run_file_words(UpdateRule::sgd_momentum), "optimizer.type sgd with momentum");
  EXPECT_EQ(run_file_words(UpdateRule::rmsprop), "optimizer.type rmsprop without momentum");
  EXPECT_EQ(run_file_words(UpdateRule::rmsprop_momentum), "optimizer.type rmsprop with momentum");
}

}  // namespace
}  // namespace strata
