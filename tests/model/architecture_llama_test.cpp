// What config.json says of llama, and of the families that differ from it in a few keys: mistral, qwen2,
// qwen3 and granite.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/architecture_support.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST(Architecture, LlamaHasTheDefaultsOfItsConfigClass) {
  const Architecture a = parse({{"model_type", "llama"}});
  EXPECT_EQ(a.family, Family::llama);
  EXPECT_EQ(a.layers, 32);
  EXPECT_EQ(a.hidden, 4096);
  EXPECT_EQ(a.heads, 32);
  EXPECT_EQ(a.kv_heads, 32);
  EXPECT_EQ(a.head_dimension, 128);
  EXPECT_EQ(a.intermediate, 11008);
  EXPECT_EQ(a.vocabulary, 32000);
  EXPECT_EQ(a.max_positions, 2048);
  EXPECT_EQ(a.norm_epsilon, 1e-6);
  EXPECT_EQ(a.rope, (RopeOptions{10000.0, std::nullopt}));
  EXPECT_FALSE(a.tied_head);
  EXPECT_FALSE(a.qkv_bias);
  EXPECT_FALSE(a.qk_norm);
  EXPECT_EQ(a.window, 0);
}

TEST(Architecture, MistralHasEightKeyValueHeadsAndAWindow) {
  const Architecture a = parse({{"model_type", "mistral"}});
  EXPECT_EQ(a.kv_heads, 8);
  EXPECT_EQ(a.intermediate, 14336);
  EXPECT_EQ(a.max_positions, 131072);
  EXPECT_EQ(a.window, 4096);
}

TEST(Architecture, NullIsNoWindowForMistralAndAsManyKeyValueHeadsAsHeads) {
  const Architecture a =
      parse({{"model_type", "mistral"}, {"sliding_window", nullptr}, {"num_key_value_heads", nullptr}});
  EXPECT_EQ(a.window, 0);
  EXPECT_EQ(a.kv_heads, 32);
}

TEST(Architecture, Qwen2HasBiasesAndQwen3NormsOfQueryAndKey) {
  const Architecture qwen2 = parse({{"model_type", "qwen2"}});
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.qk_norm);
  EXPECT_EQ(qwen2.vocabulary, 151936);
  EXPECT_EQ(qwen2.window, 0);
  const Architecture qwen3 = parse({{"model_type", "qwen3"},
                                    {"hidden_size", 1024},
                                    {"num_attention_heads", 16},
                                    {"num_key_value_heads", 8}});
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dimension, 128);  // not hidden / heads
  EXPECT_EQ(qwen3.query_columns(), 2048);
  EXPECT_EQ(qwen3.kv_columns(), 1024);
}

TEST(Architecture, AQwenWindowHoldsWhereAllLayersHaveIt) {
  const json qwen = {{"model_type", "qwen2"}, {"num_hidden_layers", 2}, {"sliding_window", 64}};
  json all = qwen;
  all["use_sliding_window"] = true;
  all["max_window_layers"] = 0;
  EXPECT_EQ(parse(all).window, 64);
  json none = all;
  none["max_window_layers"] = 2;
  EXPECT_EQ(parse(none).window, 0);
  json listed = all;
  listed["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(parse(listed).window, 0);
  EXPECT_EQ(parse(qwen).window, 0);
  json null = all;
  null["sliding_window"] = nullptr;
  EXPECT_EQ(parse(null).window, 0);
}

TEST(Architecture, GraniteScalesQueriesByItsMultiplierInsteadOfTheHeads) {
  EXPECT_EQ(parse({{"model_type", "granite"}}).query_scale, 1);
  EXPECT_EQ(parse({{"model_type", "granite"}, {"attention_multiplier", 0.25}}).query_scale, 0.25);
}

const Refusal kLlamaRefusals[] = {
    {"LlamaActivation",
     {{"model_type", "llama"}, {"hidden_act", "gelu"}},
     {"hidden_act is \"gelu\"", "\"silu\""}},
    {"AttentionBias",
     {{"model_type", "llama"}, {"attention_bias", true}},
     {"attention_bias is true", "supported: false"}},
    {"Qwen3AttentionBias", {{"model_type", "qwen3"}, {"attention_bias", true}}, {"attention_bias is true"}},
    {"MlpBias", {{"model_type", "llama"}, {"mlp_bias", true}}, {"mlp_bias is true", "supported: false"}},
    {"SomeWindows",
     {{"model_type", "qwen2"},
      {"use_sliding_window", true},
      {"max_window_layers", 28},
      {"num_hidden_layers", 30}},
     {"max_window_layers is 28", "2 of 30 layers", "all or none"}},
    {"LayerTypes",
     {{"model_type", "qwen3"}, {"num_hidden_layers", 2}, {"layer_types", {"full_attention"}}},
     {"layer_types", "each of 2 layers"}},
    {"WindowOfLayersWithout",
     {{"model_type", "qwen2"}, {"num_hidden_layers", 1}, {"layer_types", {"sliding_attention"}}},
     {"layer_types is [\"sliding_attention\"]", "use_sliding_window: true"}},
    {"MistralLayerTypes",
     {{"model_type", "mistral"}, {"layer_types", {"full_attention", "sliding_attention"}}},
     {"layer_types is [", "ministral"}},
    {"NoLayerTypes",
     {{"model_type", "mistral"}, {"layer_types", nullptr}},
     {"layer_types is null", "ministral"}},
    {"NullHeadDimension",
     {{"model_type", "qwen3"}, {"head_dim", nullptr}},
     {"head_dim is null", "integer from 1"}},
    {"KeyValueHeads",
     {{"model_type", "llama"}, {"num_attention_heads", 32}, {"num_key_value_heads", 5}},
     {"num_attention_heads 32 is not a multiple of num_key_value_heads 5"}},
    {"DefaultKeyValueHeads",
     {{"model_type", "qwen2"}, {"num_attention_heads", 16}},
     {"num_key_value_heads 32, its default; set num_key_value_heads"}},
    {"LlamaHidden",
     {{"model_type", "llama"}, {"hidden_size", 100}, {"num_attention_heads", 3}},
     {"hidden_size 100 is not a multiple of num_attention_heads 3"}},
    {"OddHead", {{"model_type", "llama"}, {"head_dim", 33}}, {"head dimension 33 is odd"}},
    {"WideHeads",
     {{"model_type", "llama"}, {"head_dim", 1048576}},
     {"32 heads of dimension 1048576 are wider than 1048576"}},
    {"Multiplier",
     {{"model_type", "granite"}, {"attention_multiplier", 0}},
     {"attention_multiplier is 0", "positive"}},
};

INSTANTIATE_TEST_SUITE_P(Llama, ArchitectureRefusal, ::testing::ValuesIn(kLlamaRefusals), name_of_refusal);

}  // namespace
}  // namespace strata::test
