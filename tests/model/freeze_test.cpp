// train.freeze on models: which tensors its patterns mean, what is refused, and units that are alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/model/build_model.h"
#include "engine/model/freeze_patterns.h"
#include "engine/model/model.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

Architecture architecture(bool tied = true, std::int64_t layers = 4) {
  return parse_architecture({{"model_type", "llama"},
                             {"num_hidden_layers", layers},
                             {"hidden_size", 16},
                             {"num_attention_heads", 2},
                             {"intermediate_size", 24},
                             {"vocab_size", 40},
                             {"tie_word_embeddings", tied}},
                            "test");
}

std::string refusal(const std::vector<std::string>& freeze) {
  try {
    build_model(architecture(), {.freeze = freeze});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::set<std::string> frozen_in(const Model& model) {
  std::set<std::string> names;
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (tensor.flat == Flat::frozen) names.insert(tensor.hf_name);
  }
  return names;
}

TEST(Freeze, TakesPatternsOfNames) {
  EXPECT_EQ(
      frozen_in(build_model(architecture(true, 1), {.freeze = {"model.layers.?.mlp.*", "*norm.weight"}})),
      (std::set<std::string>{"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                             "model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
                             "model.layers.0.post_attention_layernorm.weight", "model.norm.weight"}));
  EXPECT_EQ(frozen_in(build_model(architecture(true, 1), {.freeze = {"*.[qk]_proj.weight"}})),
            (std::set<std::string>{"model.layers.0.self_attn.q_proj.weight",
                                   "model.layers.0.self_attn.k_proj.weight"}));
}

TEST(Freeze, RefusesAPatternThatMeansNothing) {
  EXPECT_THAT(
      refusal({"*.mlp.*", "model.layers.9.*"}),
      HasSubstr("train.freeze: 'model.layers.9.*' matches no tensor of the model, whose tensors are called "
                "model.embed_tokens.weight, model.layers.0.input_layernorm.weight, …"));
  EXPECT_THAT(refusal({"lm_head.*"}), HasSubstr("'lm_head.*' matches no tensor")) << "its head is tied";
  EXPECT_THAT(refusal({"mlp"}), HasSubstr("'mlp' matches no tensor")) << "names are matched whole";
}

TEST(Freeze, RefusesToLeaveNothingToTrain) {
  EXPECT_THAT(refusal({"*"}), HasSubstr("every tensor of the model, so there is nothing to train"));
  EXPECT_THAT(refusal({"model.layers.*", "model.embed_tokens.*", "model.norm.*"}),
              HasSubstr("nothing to train"));
}

/// Frozen below, trained above a trained one, and trained above nothing that is trained.
TEST(Freeze, SharesGraphsOfUnitsThatTrainAlike) {
  const Model model =
      build_model(architecture(true, 80), {.freeze = {"model.embed_tokens.*", "model.layers.[0-9].*"}});
  EXPECT_EQ(model.graphs.size(), 5U);
  EXPECT_EQ(model.units[1].kind, model.units[10].kind);
  EXPECT_FALSE(model.graph_of(model.units[11]).wants_input_gradient);
  EXPECT_TRUE(model.graph_of(model.units[12]).wants_input_gradient);
  EXPECT_EQ(model.units[12].kind, model.units[80].kind);
  EXPECT_EQ(build_model(architecture(true, 80)).graphs.size(), 3U);
}

TEST(Freeze, OfATableHoldsForTheHeadThatSharesIt) {
  const auto touches = [](const Model& model, Region region) {
    return std::ranges::any_of(model.graph_of(model.head()).tensors,
                               [&](const Tensor& tensor) { return tensor.region == region; });
  };
  const Model model = build_model(architecture(), {.freeze = {"model.embed_tokens.weight"}});
  EXPECT_TRUE(touches(model, Region::shared_frozen));
  EXPECT_FALSE(touches(model, Region::shared_parameter));
  EXPECT_EQ(model.embedding().elements, 0);
  EXPECT_EQ(model.parameters() - model.trained_parameters(), 40 * 16);
  EXPECT_TRUE(
      touches(build_model(architecture(), {.freeze = {"model.norm.weight"}}), Region::shared_parameter));
}

TEST(Freeze, SharesWorkOutByWhatIsTrained) {
  EXPECT_EQ(backward_share_of_flops(build_model(architecture()), 8), 2);
  const double only_head = backward_share_of_flops(
      build_model(architecture(false),
                  {.freeze = {"model.layers.*", "model.embed_tokens.*", "model.norm.*"}}),
      8);
  EXPECT_GT(only_head, 0);
  EXPECT_LT(only_head, 0.2);
}

TEST(Freeze, DiffersByTensorsNotByPatterns) {
  const Model model =
      build_model(architecture(), {.freeze = {"*.mlp.gate_proj.*", "*.mlp.up_proj.*", "*.mlp.down_proj.*"}});
  EXPECT_EQ(freeze_difference({"*.mlp.*"}, model), "");
  EXPECT_EQ(freeze_difference({}, model), "model.layers.0.mlp.gate_proj.weight was trained");
  EXPECT_EQ(freeze_difference({"*.mlp.*", "model.norm.*"}, model), "model.norm.weight was frozen");
}

}  // namespace
}  // namespace strata
