// What GPT-2's config.json says.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/model/architecture_support.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST(Architecture, Gpt2HasTheDefaultsOfItsConfigClass) {
  const Architecture a = parse({{"model_type", "gpt2"}});
  EXPECT_EQ(a.family, Family::gpt2);
  EXPECT_EQ(a.layers, 12);
  EXPECT_EQ(a.hidden, 768);
  EXPECT_EQ(a.heads, 12);
  EXPECT_EQ(a.kv_heads, 12);
  EXPECT_EQ(a.head_dimension, 64);
  EXPECT_EQ(a.intermediate, 3072);
  EXPECT_EQ(a.vocabulary, 50257);
  EXPECT_EQ(a.max_positions, 1024);
  EXPECT_EQ(a.norm_epsilon, 1e-5);
  EXPECT_TRUE(a.tied_head);
}

TEST(Architecture, Gpt2SizesGoByEitherName) {
  const Architecture a = parse({{"model_type", "gpt2"},
                                {"hidden_size", 64},
                                {"num_attention_heads", 4},
                                {"num_hidden_layers", 2},
                                {"max_position_embeddings", 128},
                                {"n_inner", nullptr}});
  EXPECT_EQ(
      a,
      parse({{"model_type", "gpt2"}, {"n_embd", 64}, {"n_head", 4}, {"n_layer", 2}, {"n_positions", 128}}));
  EXPECT_EQ(a.intermediate, 256);
  expect_error<ConfigError>(
      [] {
        parse({{"model_type", "gpt2"}, {"n_embd", 64}, {"hidden_size", 32}});
      },
      {"n_embd is 64", "hidden_size, its other name, is 32"});
}

TEST(Architecture, WhatChangesNothingIsIgnoredInADownloadedConfig) {
  const Architecture a = parse({{"model_type", "gpt2"},
                                {"resid_pdrop", 0.5},
                                {"task_specific_params", {{"a", 1}}},
                                {"quantization_config", nullptr},
                                {"activation_function", "gelu_pytorch_tanh"}});
  EXPECT_EQ(a, parse({{"model_type", "gpt2"}}));
}

const Refusal kGpt2Refusals[] = {
    {"Gpt2Activation",
     {{"model_type", "gpt2"}, {"activation_function", "gelu"}},
     {"activation_function is \"gelu\"", "\"gelu_new\"", "\"gelu_pytorch_tanh\""}},
    {"InverseLayer",
     {{"model_type", "gpt2"}, {"scale_attn_by_inverse_layer_idx", true}},
     {"scale_attn_by_inverse_layer_idx is true"}},
    {"UnscaledAttention",
     {{"model_type", "gpt2"}, {"scale_attn_weights", false}},
     {"scale_attn_weights is false"}},
    {"Upcast",
     {{"model_type", "gpt2"}, {"reorder_and_upcast_attn", true}},
     {"reorder_and_upcast_attn is true"}},
    {"CrossAttention",
     {{"model_type", "gpt2"}, {"add_cross_attention", true}},
     {"add_cross_attention is true"}},
    {"Encoder", {{"model_type", "gpt2"}, {"is_encoder_decoder", true}}, {"is_encoder_decoder is true"}},
    {"PrunedHeads", {{"model_type", "gpt2"}, {"pruned_heads", {{"0", {1}}}}}, {"pruned_heads"}},
    {"NotCausal", {{"model_type", "gpt2"}, {"is_causal", false}}, {"is_causal is false", "supported: true"}},
    {"Dropout", {{"model_type", "gpt2"}, {"resid_pdrop", 1.5}}, {"resid_pdrop is 1.5", "from 0 to 1"}},
    {"Gpt2Hidden",
     {{"model_type", "gpt2"}, {"n_embd", 100}, {"n_head", 3}},
     {"n_embd 100 is not a multiple of n_head 3"}},
};

INSTANTIATE_TEST_SUITE_P(Gpt2, ArchitectureRefusal, ::testing::ValuesIn(kGpt2Refusals), name_of_refusal);

}  // namespace
}  // namespace strata::test
