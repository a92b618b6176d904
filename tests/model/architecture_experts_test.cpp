// What config.json says of models with experts: mixtral and qwen3_moe.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/architecture_support.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST(Architecture, MixtralHasTheDefaultsOfItsConfigClass) {
  const Architecture a = parse({{"model_type", "mixtral"}});
  EXPECT_EQ(a.kv_heads, 8);
  EXPECT_EQ(a.head_dimension, 128);
  EXPECT_EQ(a.max_positions, 131072);
  EXPECT_EQ(a.window, 0);
  EXPECT_EQ(a.rope, RopeOptions{.theta = 1e6});
  EXPECT_EQ(a.experts, 8);
  EXPECT_EQ(a.experts_per_token, 2);
  EXPECT_EQ(a.expert_intermediate, 14336);
  EXPECT_TRUE(a.normalises_experts);
}

TEST(Architecture, TheAuxiliaryLossCountsWhereRouterLogitsAreAskedFor) {
  const auto coefficient = [](const json& changes) {
    json config = {{"model_type", "mixtral"}};
    config.update(changes);
    return parse(config).balance_coefficient;
  };
  EXPECT_EQ(coefficient({{"router_aux_loss_coef", 0.5}}), 0);
  EXPECT_EQ(coefficient({{"output_router_logits", true}}), 0.001);
  EXPECT_EQ(coefficient({{"output_router_logits", true}, {"router_aux_loss_coef", 0.5}}), 0.5);
  EXPECT_EQ(coefficient({{"output_router_logits", true}, {"router_aux_loss_coef", 0.0}}), 0);
}

TEST(Architecture, Qwen3MoeHasTheDefaultsOfItsConfigClass) {
  const Architecture a = parse({{"model_type", "qwen3_moe"}});
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(a.head_dimension, 64);  // hidden / heads, unlike qwen3
  EXPECT_EQ(a.window, 0);
  EXPECT_EQ(a.rope, RopeOptions{.theta = 1e4});
  EXPECT_EQ(a.experts, 128);
  EXPECT_EQ(a.experts_per_token, 8);
  EXPECT_EQ(a.expert_intermediate, 768);
  EXPECT_FALSE(a.normalises_experts);
  EXPECT_EQ(a.has_experts, std::vector<bool>(24, true));
}

TEST(Architecture, LayersOfQwen3MoeHaveExpertsByStepAndList) {
  const json qwen = {{"model_type", "qwen3_moe"}, {"num_hidden_layers", 5}};
  json stepped = qwen;
  stepped["decoder_sparse_step"] = 2;
  EXPECT_EQ(parse(stepped).has_experts, (std::vector<bool>{false, true, false, true, false}));
  stepped["mlp_only_layers"] = {0, 3, 3};
  EXPECT_EQ(parse(stepped).has_experts, (std::vector<bool>{false, true, false, false, false}));
  json listed = qwen;
  listed["mlp_only_layers"] = {0, 2, 3, 4};
  EXPECT_EQ(parse(listed), parse(stepped));
}

TEST(Architecture, WithoutLayersOfExpertsNothingSaysWhatTheyWouldBe) {
  const json qwen = {{"model_type", "qwen3_moe"}, {"num_hidden_layers", 2}};
  const auto with = [&](const json& changes) {
    json config = qwen;
    config.update(changes);
    return parse(config);
  };
  const Architecture none = with({{"num_experts", 0}});
  EXPECT_EQ(none.has_experts, (std::vector<bool>{false, false}));
  EXPECT_EQ(none.experts, 0);
  EXPECT_EQ(with({{"num_local_experts", 0}, {"num_experts_per_tok", 3}}), none);
  EXPECT_EQ(with({{"decoder_sparse_step", 3}, {"norm_topk_prob", true}}), none);
  EXPECT_EQ(with({{"mlp_only_layers", {0, 1}}, {"moe_intermediate_size", 7}}), none);
}

TEST(Architecture, TheWindowOfQwen3MoeIsThatOfAllLayers) {
  const json qwen = {{"model_type", "qwen3_moe"}, {"sliding_window", 77}, {"max_window_layers", 48}};
  EXPECT_EQ(parse(qwen).window, 0);
  json sliding = qwen;
  sliding["use_sliding_window"] = true;
  EXPECT_EQ(parse(sliding).window, 77);
  EXPECT_EQ(parse({{"model_type", "qwen3_moe"}, {"use_sliding_window", true}}).window, 4096);
}

const Refusal kExpertsRefusals[] = {
    {"NegativeBalance",
     {{"model_type", "mixtral"}, {"output_router_logits", true}, {"router_aux_loss_coef", -0.5}},
     {"router_aux_loss_coef is -0.5", "not negative"}},
    {"BalanceOfNothing",
     {{"model_type", "qwen3_moe"}, {"output_router_logits", true}, {"num_experts", 0}},
     {"output_router_logits is true", "no layer has experts", "set it to false"}},
    {"RouterNoise",
     {{"model_type", "mixtral"}, {"router_jitter_noise", 0.1}},
     {"router_jitter_noise is 0.1", "set it to 0"}},
    {"ExpertsByBothNames",
     {{"model_type", "mixtral"}, {"num_experts", 4}, {"num_local_experts", 8}},
     {"num_experts is 4; but num_local_experts, its other name, is 8; keep one of them"}},
    {"NullExperts",
     {{"model_type", "qwen3_moe"}, {"num_experts", nullptr}, {"num_local_experts", 8}},
     {"num_experts is null; but num_local_experts, its other name, is 8"}},
    {"NoExperts", {{"model_type", "mixtral"}, {"num_experts", 0}}, {"num_experts is 0", "integer from 1"}},
    {"MoreThanAllExperts",
     {{"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 5}},
     {"num_experts_per_tok 5 is more than 4 experts"}},
    {"MoreThanAllExpertsByDefault",
     {{"model_type", "qwen3_moe"}, {"num_experts", 4}},
     {"num_experts_per_tok 8 is more than 4 experts, its default; set num_experts_per_tok"}},
    {"MoreExpertsThanHaveNames",
     {{"model_type", "mixtral"}, {"num_hidden_layers", 100000}, {"num_local_experts", 100000}},
     {"100000 layers of 100000 experts are more than 1000000 experts"}},
    {"LayerWithoutExperts",
     {{"model_type", "qwen3_moe"}, {"num_hidden_layers", 2}, {"mlp_only_layers", {2}}},
     {"mlp_only_layers is [2]", "a list of numbers from 0 to 1"}},
    {"LayersWithoutExpertsNoList",
     {{"model_type", "qwen3_moe"}, {"mlp_only_layers", 1}},
     {"mlp_only_layers is 1", "a list of numbers"}},
    {"ExpertStep",
     {{"model_type", "qwen3_moe"}, {"decoder_sparse_step", 0}},
     {"decoder_sparse_step is 0", "integer from 1"}},
    {"SharedExpert",
     {{"model_type", "qwen3_moe"}, {"shared_expert_intermediate_size", 512}},
     {"shared_expert_intermediate_size is 512", "from 0 to 0"}},
    {"QwenMoeHeadDimension",
     {{"model_type", "qwen3_moe"}, {"head_dim", nullptr}},
     {"head_dim is null", "integer from 1"}},
};

INSTANTIATE_TEST_SUITE_P(Experts, ArchitectureRefusal, ::testing::ValuesIn(kExpertsRefusals),
                         name_of_refusal);

}  // namespace
}  // namespace strata::test
