// What a plan says of optimizer.groups.
#include "engine/tools/report/policy_report.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

Model model_with(const OptimizerSection& optimizer) {
  return build_model(parse_architecture({{"model_type", "llama"},
                                         {"num_hidden_layers", 12},
                                         {"hidden_size", 64},
                                         {"num_attention_heads", 2},
                                         {"intermediate_size", 96},
                                         {"vocab_size", 1000},
                                         {"tie_word_embeddings", false}},
                                        "test"),
                     {.freeze = {"model.norm.*"}, .optimizer = optimizer});
}

const OptimizerSection kOptimizer = {
    .groups = {{.tensors = {"*layernorm*"}, .weight_decay = 0.5},
               {.tensors = {"model.embed_tokens.*", "model.layers.1?.mlp.*"}, .learning_rate_factor = 0.1}}};

TEST(PolicyReport, NamesEachTrainedTensorOnceAndLayersTogether) {
  EXPECT_EQ(
      policies_text(model_with(kOptimizer)),
      "policies adamw, lr, weight decay 0.1: 444,928 parameters, model.layers.*.self_attn.q_proj.weight "
      "(12), model.layers.*.self_attn.k_proj.weight (12), model.layers.*.self_attn.v_proj.weight (12), "
      "model.layers.*.self_attn.o_proj.weight (12), model.layers.*.mlp.gate_proj.weight (10), "
      "model.layers.*.mlp.up_proj.weight (10), model.layers.*.mlp.down_proj.weight (10), "
      "lm_head.weight\n"
      "         adamw, lr x 0.1, weight decay 0.1: 100,864 parameters, model.embed_tokens.weight, "
      "model.layers.*.mlp.gate_proj.weight (2), model.layers.*.mlp.up_proj.weight (2), "
      "model.layers.*.mlp.down_proj.weight (2)\n"
      "         adamw, lr, weight decay 0.5: 1,536 parameters, model.layers.*.input_layernorm.weight "
      "(12), model.layers.*.post_attention_layernorm.weight (12)\n");
}

TEST(PolicyReport, NamesTheRule) {
  OptimizerSection optimizer;
  optimizer.type = OptimizerType::sgd;
  optimizer.decay = Decay::all;
  EXPECT_TRUE(policies_text(model_with(optimizer)).starts_with("policies sgd, lr, weight decay 0.1: "));
  optimizer.momentum = 0.9;
  EXPECT_TRUE(policies_text(model_with(optimizer)).starts_with("policies sgd_momentum, lr, weight decay"));
  optimizer.type = OptimizerType::rmsprop;
  EXPECT_TRUE(policies_text(model_with(optimizer)).starts_with("policies rmsprop_momentum, lr, "));
}

TEST(PolicyReport, NamesTheGroupWhoseScheduleATensorFollows) {
  OptimizerSection optimizer = kOptimizer;
  optimizer.groups.push_back({.tensors = {"*norm*"}, .schedule = ScheduleSection()});
  const Model model = model_with(optimizer);
  EXPECT_THAT(policies_text(model),
              ::testing::HasSubstr("adamw, lr by the schedule of group 3, weight decay "));
  const nlohmann::json json = policies_json(model);
  EXPECT_EQ(json.front()["schedule_of_group"], nullptr);
  EXPECT_EQ(json.back()["schedule_of_group"], 3);
}

TEST(PolicyReport, AsJsonNamesEveryTensor) {
  const Model model = model_with(kOptimizer);
  const nlohmann::json json = policies_json(model);
  ASSERT_EQ(json.size(), 3U);
  std::int64_t parameters = 0;
  for (const nlohmann::json& policy : json) parameters += policy["parameters"].get<std::int64_t>();
  EXPECT_EQ(parameters, model.trained_parameters());
  EXPECT_EQ(json[1]["rule"], "adamw");
  EXPECT_EQ(json[1]["lr_factor"], 0.1);
  EXPECT_EQ(json[1]["weight_decay"], 0.1);
  EXPECT_EQ(json[1]["tensors"].size(), 7U);
  EXPECT_EQ(json[1]["tensors"][1], "model.layers.10.mlp.gate_proj.weight");
}

}  // namespace
}  // namespace strata
