// Which policy updates a tensor: optimizer.decay and optimizer.groups on models.
#include "engine/model/tensor_policies.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/model/updated_matrices.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Optimizer = OptimizerSection;

Model build_with(const Optimizer& optimizer, const std::vector<std::string>& freeze = {}) {
  return build_model(parse_architecture({{"model_type", "qwen2"},
                                         {"num_hidden_layers", 3},
                                         {"hidden_size", 16},
                                         {"num_attention_heads", 2},
                                         {"num_key_value_heads", 1},
                                         {"intermediate_size", 24},
                                         {"vocab_size", 40},
                                         {"tie_word_embeddings", true}},
                                        "test"),
                     {.freeze = freeze, .optimizer = optimizer});
}

UpdatePolicy policy_of(const Model& model, const std::string& name) {
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (tensor.hf_name == name) return model.policies[tensor.policy];
  }
  throw std::out_of_range(name);
}

UpdatePolicy adamw(double learning_rate_factor, double weight_decay) {
  return {.learning_rate_factor = learning_rate_factor, .weight_decay = weight_decay};
}

Optimizer optimizer_with(std::vector<TensorGroup> groups) {
  Optimizer optimizer;
  optimizer.weight_decay = 0.2;
  optimizer.groups = std::move(groups);
  return optimizer;
}

std::string refusal_of_groups(std::vector<TensorGroup> groups, const std::vector<std::string>& freeze = {}) {
  try {
    build_with(optimizer_with(std::move(groups)), freeze);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Invariant (TensorPolicies.*): Groups change only what they name.
TEST(TensorPolicies, DecayMatricesButNotNormsAndBiases) {
  const Model model = build_with(optimizer_with({}));
  EXPECT_EQ(policy_of(model, "model.embed_tokens.weight"), adamw(1, 0.2));
  EXPECT_EQ(policy_of(model, "model.layers.0.self_attn.q_proj.weight"), adamw(1, 0.2));
  EXPECT_EQ(policy_of(model, "model.layers.0.self_attn.q_proj.bias"), adamw(1, 0));
  EXPECT_EQ(policy_of(model, "model.norm.weight"), adamw(1, 0));
  EXPECT_THAT(model.policies, ElementsAre(adamw(1, 0.2), adamw(1, 0)));
}

TEST(TensorPolicies, DecayAllWhereTheSectionSaysSo) {
  Optimizer optimizer = optimizer_with({});
  optimizer.decay = Decay::all;
  const Model model = build_with(optimizer);
  EXPECT_EQ(policy_of(model, "model.layers.0.self_attn.q_proj.weight"), adamw(1, 0.2));
  EXPECT_EQ(policy_of(model, "model.norm.weight"), adamw(1, 0.2));
  for (const TensorSpec& tensor : model.units[1].tensors)
    EXPECT_EQ(tensor.policy, 0U) << "equal policies are one, so what they update is joined";
}

TEST(TensorPolicies, AreOverriddenByTheLastGroupThatFitsKeyByKey) {
  const Model model = build_with(optimizer_with({{{"*.bias", "model.norm.*"}, {}, 0.5},
                                                 {{"*.self_attn.*"}, 0.25, {}},
                                                 {{"model.layers.1.*"}, 3, 0},
                                                 {{"*.1.self_attn.k_proj.bias"}, {}, 0.75}}));
  const std::string layer = "model.layers.";
  EXPECT_EQ(policy_of(model, "model.norm.weight"), adamw(1, 0.5));
  EXPECT_EQ(policy_of(model, layer + "0.self_attn.q_proj.weight"), adamw(0.25, 0.2));
  EXPECT_EQ(policy_of(model, layer + "0.self_attn.q_proj.bias"), adamw(0.25, 0.5));
  EXPECT_EQ(policy_of(model, layer + "1.self_attn.q_proj.bias"), adamw(3, 0));
  EXPECT_EQ(policy_of(model, layer + "1.self_attn.k_proj.bias"), adamw(3, 0.75));
  EXPECT_EQ(policy_of(model, layer + "1.mlp.up_proj.weight"), adamw(3, 0));
  EXPECT_EQ(policy_of(model, layer + "2.mlp.up_proj.weight"), adamw(1, 0.2));
  EXPECT_THAT(model.policies, SizeIs(2 + 5));
}

TEST(TensorPolicies, HaveTheScheduleOfTheLastGroupWithOne) {
  const ScheduleSection wsd = {.type = ScheduleType::wsd};
  const Model model = build_with(optimizer_with(
      {{{"*.bias"}, {}, {}, wsd}, {{"model.layers.1.*"}, {}, {}, wsd}, {{"model.layers.1.*"}, 3, 0}}));
  EXPECT_EQ(policy_of(model, "model.norm.weight").schedule, 0U);
  EXPECT_EQ(policy_of(model, "model.layers.0.self_attn.q_proj.bias").schedule, 1U);
  EXPECT_EQ(policy_of(model, "model.layers.1.self_attn.q_proj.bias").schedule, 2U);
  EXPECT_EQ(policy_of(model, "model.layers.1.self_attn.q_proj.bias").learning_rate_factor, 3);
}

TEST(TensorPolicies, HaveOneNumberWhereTheyAreEqual) {
  EXPECT_THAT(build_with(optimizer_with({{{"*.bias"}, {}, 0}, {{"*.mlp.*"}, 1, 0.2}})).policies, SizeIs(2));
}

TEST(TensorPolicies, LeaveUnitsOfOneKindWithOneGraph) {
  EXPECT_EQ(build_with(optimizer_with({{{"model.layers.1.*"}, 3, 0}})).graphs.size(),
            build_with({}).graphs.size());
}

TEST(TensorPolicies, RefuseAPatternThatMeansNothing) {
  EXPECT_THAT(
      refusal_of_groups({{{"*.bias"}, 1, {}}, {{"*.mlp.*", "model.layers.9.*"}, 1, {}}}),
      HasSubstr("optimizer.groups: 'model.layers.9.*' matches no tensor of the model, whose tensors are "
                "called model.embed_tokens.weight, model.layers.0.input_layernorm.weight, …"));
  EXPECT_THAT(refusal_of_groups({{{"lm_head.*"}, 1, {}}}), HasSubstr("'lm_head.*' matches no tensor"))
      << "its head is tied";
}

TEST(TensorPolicies, RefuseAPatternOfFrozenTensorsOnly) {
  const std::vector<std::string> freeze = {"model.layers.0.*"};
  EXPECT_THAT(refusal_of_groups({{{"model.layers.0.mlp.*"}, 1, {}}}, freeze),
              HasSubstr("optimizer.groups: 'model.layers.0.mlp.*' matches only tensors that are not "
                        "trained, such as model.layers.0.mlp.gate_proj.weight; take the pattern out"));
  EXPECT_EQ(refusal_of_groups({{{"*.mlp.*"}, 1, {}}}, freeze), "accepted") << "it matches trained ones, too";
}

Optimizer muon(std::vector<TensorGroup> groups = {}) {
  Optimizer optimizer = optimizer_with(std::move(groups));
  optimizer.type = OptimizerType::muon;
  return optimizer;
}

TEST(Muon, UpdatesMatricesOfBlocksAndAdamWTheRest) {
  const Model model = build_with(muon());
  for (const Unit& unit : model.units) {
    const bool is_block = &unit != &model.embedding() && &unit != &model.head();
    for (const TensorSpec& tensor : unit.tensors) {
      const UpdatePolicy& policy = model.policies[tensor.policy];
      const bool is_matrix = tensor.hf_shape.size() == 2;
      EXPECT_EQ(policy.rule, is_block && is_matrix ? UpdateRule::muon : UpdateRule::adamw) << tensor.hf_name;
      EXPECT_EQ(policy.weight_decay, is_matrix ? 0.2 : 0) << tensor.hf_name;
    }
  }
  EXPECT_EQ(model.rules(), (UpdateRules{{UpdateRule::adamw, 17}, {UpdateRule::muon, 21}}));
}

TEST(Muon, ScalesTheRateByTheShapeOfAMatrixAsTorchDoes) {
  Optimizer optimizer = muon();
  const auto scale = [&](const char* name) { return policy_of(build_with(optimizer), name).settings.scale; };
  constexpr const char *kDown = "model.layers.0.mlp.down_proj.weight",  // [16, 24]
      *kUp = "model.layers.0.mlp.up_proj.weight";                       // [24, 16]
  EXPECT_DOUBLE_EQ(scale(kDown), 0.2 * std::sqrt(24));
  EXPECT_DOUBLE_EQ(scale(kUp), 0.2 * std::sqrt(24));
  optimizer.muon_scaling = MuonScaling::original;
  EXPECT_DOUBLE_EQ(scale(kDown), 1);
  EXPECT_DOUBLE_EQ(scale(kUp), std::sqrt(1.5));
  optimizer.muon_scaling = MuonScaling::spectral_unclamped;
  EXPECT_DOUBLE_EQ(scale(kDown), std::sqrt(16.0 / 24.0));
  EXPECT_EQ(scale("model.norm.weight"), 1);
}

TEST(Muon, LeavesAMatrixToAdamWOrTakesOneIfAGroupSaysSo) {
  const Model model =
      build_with(muon({{.tensors = {"*.o_proj.weight"}, .type = OptimizerType::adamw},
                       {.tensors = {"model.embed_tokens.weight"}, .type = OptimizerType::muon}}));
  EXPECT_EQ(policy_of(model, "model.layers.1.self_attn.o_proj.weight").rule, UpdateRule::adamw);
  EXPECT_EQ(policy_of(model, "model.embed_tokens.weight").rule, UpdateRule::muon);
  try {
    build_with(muon({{.tensors = {"model.norm.weight"}, .type = OptimizerType::muon}}));
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("optimizer.groups: model.norm.weight has 1 dimension, and muon updates matrices"));
  }
}

// Invariant of state and checkpoints (Muon.TensorsOfOneRule*): A moment covers the tensors whose rule keeps
// it. Tensors of one rule stand together, so that this is one stretch of a unit.
TEST(Muon, TensorsOfOneRuleStandTogetherAndEachMomentCoversThem) {
  for (const std::vector<std::string>& freeze : {std::vector<std::string>{}, {"*.mlp.up_proj.*"}}) {
    const Model model = build_with(muon(), freeze);
    const Unit& block = model.units[1];
    const Stretch momentum = kept_stretch(model, block, key_of(Moment::momentum_buffer)),
                  squares = kept_stretch(model, block, key_of(Moment::exp_avg_sq));
    EXPECT_EQ(kept_stretch(model, block, StateKey::master), (Stretch{0, block.elements}));
    EXPECT_EQ(kept_stretch(model, block, key_of(Moment::ema)), (Stretch{0, block.elements}));
    EXPECT_EQ(kept_stretch(model, block, key_of(Moment::sum)).count, 0);
    EXPECT_EQ(momentum.count + squares.count, block.elements);
    std::int64_t matrices = 0;
    for (const TensorSpec& tensor : block.tensors) {
      if (tensor.flat == Flat::frozen) continue;
      const bool is_matrix = keeps(model, tensor, key_of(Moment::momentum_buffer));
      EXPECT_EQ(is_matrix, tensor.hf_shape.size() == 2);
      const Stretch& of = is_matrix ? momentum : squares;
      EXPECT_GE(tensor.offset, of.first) << tensor.hf_name;
      EXPECT_LE(tensor.offset + tensor.elements, of.first + of.count) << tensor.hf_name;
      matrices += is_matrix ? tensor.elements : 0;
    }
    EXPECT_EQ(parameters_keeping(model, Moment::momentum_buffer), 3 * matrices);
    EXPECT_EQ(updated_matrices(model, block).size(), freeze.empty() ? 7U : 6U);
  }
}

}  // namespace
}  // namespace strata
