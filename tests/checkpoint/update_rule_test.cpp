// Checkpoints have the moments of the rule by which their run updates, and say which rule that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata {
namespace {

using test::expect_error;
using test::quick;
using test::State;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointOfRule : public ::testing::Test {
 protected:
  static Model model(UpdateRule rule, const std::vector<std::string>& freeze = {}) {
    OptimizerSection optimizer;
    if (rule != UpdateRule::adamw) optimizer.type = OptimizerType::sgd;
    if (rule == UpdateRule::sgd_momentum) optimizer.momentum = 0.9;
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
  for (const auto& [rule, moments] :
       {std::pair(UpdateRule::adamw, std::set<std::string>{"exp_avg.safetensors", "exp_avg_sq.safetensors"}),
        std::pair(UpdateRule::sgd, std::set<std::string>{}),
        std::pair(UpdateRule::sgd_momentum, std::set<std::string>{"momentum_buffer.safetensors"})}) {
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
  const Model sgd = model(UpdateRule::sgd_momentum), adamw = model(UpdateRule::adamw);
  State of_sgd(sgd, 1), of_adamw(adamw, 1);
  save(sgd, of_sgd);
  EXPECT_THAT(manifest(), HasSubstr("\"update_rule\": \"sgd_momentum\""));
  EXPECT_THAT(manifest(), HasSubstr("\"version\": 5"));
  EXPECT_EQ(parse_manifest(manifest(), "manifest.json").rule, UpdateRule::sgd_momentum);
  std::filesystem::remove_all(saved());
  save(adamw, of_adamw);
  EXPECT_THAT(manifest(), Not(HasSubstr("update_rule")));
  EXPECT_THAT(manifest(), HasSubstr("\"version\": 3"));
  EXPECT_EQ(parse_manifest(manifest(), "manifest.json").rule, UpdateRule::adamw);
}

TEST_F(CheckpointOfRule, IsRefusedByRunsOfAnother) {
  const Model sgd = model(UpdateRule::sgd);
  State state(sgd, 1);
  save(sgd, state);
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::sgd_momentum}) {
    const Model other = model(rule);
    State loaded(other, 0);
    const auto load = [&] {
      CheckpointStore(folder_.path(), 2, quick()).load_newest(other, loaded.access());
    };
    expect_error<ConfigError>(load,
                              {saved().string(), "is of a run with optimizer.type sgd without momentum",
                               rule == UpdateRule::adamw ? "this one has optimizer.type adamw"
                                                         : "this one has optimizer.type sgd with momentum"});
  }
}

}  // namespace
}  // namespace strata
