#include "engine/model/architecture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using nlohmann::json;
using test::expect_error;

Architecture parse(const json& config) {
  return parse_architecture(config, "folder/config.json");
}

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

TEST(Architecture, RopeIsReadInTheSpellingsOfBothTransformersVersions) {
  const json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  const RopeOptions expected{500000.0, RopeOptions::Llama3{8, 1, 4, 8192}};
  const Architecture before =
      parse({{"model_type", "llama"}, {"rope_theta", 500000.0}, {"rope_scaling", scaling}});
  EXPECT_EQ(before.rope, expected);
  json parameters = scaling;
  parameters["rope_theta"] = 500000;
  EXPECT_EQ(parse({{"model_type", "llama"}, {"rope_parameters", parameters}}).rope, expected);
  EXPECT_EQ(parse({{"model_type", "llama"}, {"rope_theta", 1.0}, {"rope_parameters", parameters}}).rope,
            expected);
}

TEST(Architecture, RopeScalingWinsOverRopeParametersAsInTransformers) {
  const Architecture a = parse({{"model_type", "llama"},
                                {"rope_scaling", {{"type", "default"}, {"rope_theta", 7.0}}},
                                {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 9.0}}}});
  EXPECT_EQ(a.rope.theta, 7.0);
  EXPECT_EQ(parse({{"model_type", "llama"},
                   {"rope_scaling", nullptr},
                   {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 9.0}}}})
                .rope.theta,
            9.0);
}

TEST(Architecture, Llama3RopeStartsFromTheModelsPositionsWhereItDoesNotSay) {
  const Architecture a =
      parse({{"model_type", "llama"},
             {"max_position_embeddings", 777},
             {"rope_scaling",
              {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}}});
  EXPECT_EQ(a.rope.llama3->original_max_positions, 777);
}

TEST(Architecture, WhatChangesNothingIsIgnoredInADownloadedConfig) {
  const Architecture a = parse({{"model_type", "gpt2"},
                                {"resid_pdrop", 0.5},
                                {"task_specific_params", {{"a", 1}}},
                                {"quantization_config", nullptr},
                                {"activation_function", "gelu_pytorch_tanh"}});
  EXPECT_EQ(a, parse({{"model_type", "gpt2"}}));
}

struct Refusal {
  const char* name;
  json config;
  std::vector<std::string> parts;
};

class ArchitectureRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ArchitectureRefusal, NamesSourceKeyValueAndWhatIsSupported) {
  std::vector<std::string> parts = GetParam().parts;
  parts.emplace_back("folder/config.json: ");
  expect_error<ConfigError>([] { parse(GetParam().config); }, parts);
}

json rope(const char* model_type, json parameters) {
  return {{"model_type", model_type}, {"rope_parameters", std::move(parameters)}};
}

const Refusal kRefusals[] = {
    {"NoObject", json::array(), {"expected a JSON object"}},
    {"NoModelType", json::object(), {"model_type is missing"}},
    {"ModelType",
     {{"model_type", "bert"}},
     {"model_type is \"bert\"",
      "gpt2, llama, mistral, qwen2, qwen3, olmo2, phi3, granite, gemma2, gemma3_text"}},
    {"LlamaActivation",
     {{"model_type", "llama"}, {"hidden_act", "gelu"}},
     {"hidden_act is \"gelu\"", "\"silu\""}},
    {"Gpt2Activation",
     {{"model_type", "gpt2"}, {"activation_function", "gelu"}},
     {"activation_function is \"gelu\"", "\"gelu_new\"", "\"gelu_pytorch_tanh\""}},
    {"AttentionBias",
     {{"model_type", "llama"}, {"attention_bias", true}},
     {"attention_bias is true", "supported: false"}},
    {"Qwen3AttentionBias", {{"model_type", "qwen3"}, {"attention_bias", true}}, {"attention_bias is true"}},
    {"MlpBias", {{"model_type", "llama"}, {"mlp_bias", true}}, {"mlp_bias is true", "supported: false"}},
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
    {"Quantized",
     {{"model_type", "llama"}, {"quantization_config", {{"bits", 4}}}},
     {"quantization_config", "full-precision"}},
    {"RopeType",
     rope("llama", {{"rope_type", "yarn"}}),
     {"rope_parameters: rope_type is \"yarn\"", "\"llama3\""}},
    {"OldRopeType",
     {{"model_type", "llama"}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}},
     {"rope_scaling: type is \"linear\"", "\"default\""}},
    {"RopeFactor", rope("llama", {{"rope_type", "llama3"}}), {"rope_parameters: factor is missing"}},
    {"RopeOrder",
     rope("llama", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}),
     {"high_freq_factor is 1", "more than low_freq_factor"}},
    {"PartialRotary", rope("llama", {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor is 0.5"}},
    {"RopeByLayer",
     rope("qwen3", {{"full_attention", {{"rope_theta", 1}}}}),
     {"full_attention", "by layer type"}},
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
    {"NotCausal", {{"model_type", "gpt2"}, {"is_causal", false}}, {"is_causal is false", "supported: true"}},
    {"NullCausal", {{"model_type", "llama"}, {"is_causal", nullptr}}, {"is_causal is null", "true or false"}},
    {"LayersThatDiffer",
     {{"model_type", "llama"}, {"per_layer_config", {{"1", {{"rms_norm_eps", 0.1}}}}}},
     {"per_layer_config is {", "not supported"}},
    {"NullHeadDimension",
     {{"model_type", "qwen3"}, {"head_dim", nullptr}},
     {"head_dim is null", "integer from 1"}},
    {"PaddingToken",
     {{"model_type", "llama"}, {"vocab_size", 100}, {"pad_token_id", 100}},
     {"pad_token_id is 100", "from -100 to 99"}},
    {"Dropout", {{"model_type", "gpt2"}, {"resid_pdrop", 1.5}}, {"resid_pdrop is 1.5", "from 0 to 1"}},
    {"NullSize",
     {{"model_type", "llama"}, {"hidden_size", nullptr}},
     {"hidden_size is null", "integer from 1"}},
    {"KeyValueHeads",
     {{"model_type", "llama"}, {"num_attention_heads", 32}, {"num_key_value_heads", 5}},
     {"num_attention_heads 32 is not a multiple of num_key_value_heads 5"}},
    {"DefaultKeyValueHeads",
     {{"model_type", "qwen2"}, {"num_attention_heads", 16}},
     {"num_key_value_heads 32, its default; set num_key_value_heads"}},
    {"LlamaHidden",
     {{"model_type", "llama"}, {"hidden_size", 100}, {"num_attention_heads", 3}},
     {"hidden_size 100 is not a multiple of num_attention_heads 3"}},
    {"Gpt2Hidden",
     {{"model_type", "gpt2"}, {"n_embd", 100}, {"n_head", 3}},
     {"n_embd 100 is not a multiple of n_head 3"}},
    {"OddHead", {{"model_type", "llama"}, {"head_dim", 33}}, {"head dimension 33 is odd"}},
    {"WrongType",
     {{"model_type", "llama"}, {"hidden_size", "4096"}},
     {"hidden_size is \"4096\"", "integer from 1 to"}},
    {"Fraction", {{"model_type", "llama"}, {"hidden_size", 4096.5}}, {"hidden_size is 4096.5", "integer"}},
    {"Zero", {{"model_type", "llama"}, {"num_hidden_layers", 0}}, {"num_hidden_layers is 0"}},
    {"Huge",
     {{"model_type", "llama"}, {"vocab_size", 18446744073709551615ULL}},
     {"vocab_size is 18446744073709551615"}},
    {"WideHeads",
     {{"model_type", "llama"}, {"head_dim", 1048576}},
     {"32 heads of dimension 1048576 are wider than 1048576"}},
    {"Epsilon", {{"model_type", "llama"}, {"rms_norm_eps", 0}}, {"rms_norm_eps is 0", "positive"}},
    {"Range", {{"model_type", "llama"}, {"initializer_range", -0.1}}, {"initializer_range is -0.1"}},
    {"NoBoolean",
     {{"model_type", "llama"}, {"tie_word_embeddings", 1}},
     {"tie_word_embeddings is 1", "true or false"}},
    {"NoNumber", {{"model_type", "llama"}, {"rope_theta", "x"}}, {"rope_theta is \"x\"", "a number"}},
    {"NoText", {{"model_type", 3}}, {"model_type is 3", "a string"}},
    {"DefaultPaddingToken",
     {{"model_type", "phi3"}, {"vocab_size", 100}},
     {"pad_token_id is absent", "32000, its default", "vocabulary of 100", "set pad_token_id"}},
    {"Phi3Rope",
     rope("phi3", {{"rope_type", "yarn"}}),
     {"rope_type is \"yarn\"", "supported: \"default\", \"longrope\""}},
    {"Phi3FewFactors",
     rope("phi3", {{"rope_type", "longrope"}, {"short_factor", {1.0, 2.0}}}),
     {"short_factor is [1.0,2.0]", "a list of 48 positive numbers"}},
    {"Phi3NoFactors", rope("phi3", {{"rope_type", "longrope"}}), {"short_factor"}},
    {"Phi3Llama3",
     rope("phi3", {{"rope_type", "llama3"}}),
     {"rope_type is \"llama3\"", "supported: \"default\", \"longrope\""}},
    {"Phi3PartialRotary",
     rope("phi3", {{"rope_type", "default"}, {"partial_rotary_factor", 0.75}}),
     {"partial_rotary_factor is 0.75", "supported: 1"}},
    {"Multiplier",
     {{"model_type", "granite"}, {"attention_multiplier", 0}},
     {"attention_multiplier is 0", "positive"}},
    {"GemmaHidden",
     {{"model_type", "gemma3_text"}, {"hidden_size", 100}, {"head_dim", 8}},
     {"hidden_size 100 is not a multiple of num_attention_heads 8"}},
    {"GemmaKeyValueHeads",
     {{"model_type", "gemma3_text"}, {"num_key_value_heads", nullptr}},
     {"num_key_value_heads is null", "integer from 1"}},
    {"GemmaRopeType",
     rope("gemma3_text", {{"full_attention", {{"rope_type", "yarn"}}}}),
     {"rope_parameters: full_attention: rope_type is \"yarn\"", "supported: \"default\", \"linear\""}},
    {"GemmaOldScaling",
     {{"model_type", "gemma3_text"}, {"rope_scaling", {{"type", "linear"}, {"factor", 8}}}},
     {"rope_scaling: type is \"linear\"", "goes by rope_type"}},
    {"GemmaScalingOfNothing",
     {{"model_type", "gemma3_text"}, {"rope_scaling", {{"factor", 8}}}, {"rope_parameters", json::object()}},
     {"rope_scaling is {\"factor\":8}", "full_attention in rope_parameters"}},
    {"GemmaNoWindow",
     {{"model_type", "gemma3_text"}, {"sliding_window", nullptr}},
     {"sliding_window is null", "integer from 1"}},
    {"Bidirectional",
     {{"model_type", "gemma3_text"}, {"use_bidirectional_attention", true}},
     {"use_bidirectional_attention is true", "supported: false"}},
    {"SoftCap",
     {{"model_type", "gemma3_text"}, {"final_logit_softcapping", 0.0}},
     {"final_logit_softcapping is 0.0", "positive"}},
    {"SoftCapOnScores",
     {{"model_type", "gemma2"}, {"attn_logit_softcapping", -50.0}},
     {"attn_logit_softcapping is -50.0", "positive"}},
    {"Gemma2RopeByLayerType",
     rope("gemma2", {{"full_attention", {{"rope_type", "default"}}}}),
     {"full_attention", "not supported"}},
    {"QueryScalar",
     {{"model_type", "gemma3_text"}, {"query_pre_attn_scalar", 0}},
     {"query_pre_attn_scalar is 0", "integer from 1"}},
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

INSTANTIATE_TEST_SUITE_P(All, ArchitectureRefusal, ::testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Architecture, AnUnknownKeyIsRefusedWithTheNearestOne) {
  expect_error<ConfigError>(
      [] {
        parse({{"model_type", "llama"}, {"num_hiden_layers", 2}});
      },
      {"folder/config.json: unknown key num_hiden_layers (2); did you mean num_hidden_layers? If not, take"});
  expect_error<ConfigError>(
      [] {
        parse({{"model_type", "gpt2"}, {"dropout_everywhere", 2}});
      },
      {"unknown key dropout_everywhere (2); take it out if"});
  expect_error<ConfigError>(
      [] {
        parse({{"model_type", "llama"}, {"rope_scaling", {{"rope_type", "default"}, {"rope_tetha", 2}}}});
      },
      {"folder/config.json: rope_scaling: unknown key rope_tetha (2); did you mean rope_theta?"});
}

TEST(Architecture, ThePaddingTokenIsThatOfTorch) {
  const json llama = {{"model_type", "llama"}, {"vocab_size", 100}};
  const auto padding_of = [&](const json& token) {
    json config = llama;
    config["pad_token_id"] = token;
    return parse(config).padding_token;
  };
  EXPECT_EQ(parse(llama).padding_token, std::nullopt);
  EXPECT_EQ(padding_of(nullptr), std::nullopt);
  EXPECT_EQ(padding_of(0), 0);
  EXPECT_EQ(padding_of(-1), 99);
  EXPECT_EQ(parse({{"model_type", "gpt2"}, {"pad_token_id", 3}}).padding_token, std::nullopt);
}

TEST(Architecture, OriginalPositionsBesideTheRopeSettingsWinOverThoseAmongThem) {
  const Architecture a = parse({{"model_type", "llama"},
                                {"original_max_position_embeddings", 16},
                                {"rope_parameters",
                                 {{"rope_type", "llama3"},
                                  {"factor", 8},
                                  {"low_freq_factor", 1},
                                  {"high_freq_factor", 4},
                                  {"original_max_position_embeddings", 8}}}});
  EXPECT_EQ(a.rope.llama3->original_max_positions, 16);
}

TEST(Architecture, TheWrittenConfigIsReadBackToTheSameModel) {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192},
                       {"rope_theta", 500000.0}};
  const json configs[] = {
      {{"model_type", "gpt2"},
       {"n_inner", 100},
       {"tie_word_embeddings", false},
       {"layer_norm_epsilon", 1e-6}},
      {{"model_type", "llama"},
       {"num_key_value_heads", 8},
       {"rope_parameters", llama3},
       {"initializer_range", 0.01}},
      {{"model_type", "llama"}, {"tie_word_embeddings", true}, {"head_dim", 64}},
      {{"model_type", "llama"}, {"pad_token_id", 0}},
      {{"model_type", "qwen2"}, {"pad_token_id", -1}},
      {{"model_type", "mistral"}},
      {{"model_type", "mistral"}, {"sliding_window", nullptr}},
      {{"model_type", "qwen2"}, {"rope_theta", 1e6}},
      {{"model_type", "qwen2"},
       {"use_sliding_window", true},
       {"max_window_layers", 0},
       {"sliding_window", 77}},
      {{"model_type", "qwen3"}, {"hidden_size", 1024}, {"rms_norm_eps", 1e-5}},
      {{"model_type", "olmo2"}},
      {{"model_type", "olmo2"}, {"pad_token_id", nullptr}, {"attention_bias", true}},
      {{"model_type", "olmo2"}, {"rope_parameters", llama3}, {"num_key_value_heads", 4}},
      {{"model_type", "phi3"}},
      {{"model_type", "phi3"}, {"pad_token_id", nullptr}, {"sliding_window", 2047}, {"head_dim", 80}},
      {{"model_type", "phi3"},
       {"head_dim", 4},
       {"max_position_embeddings", 131072},
       {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0, 1.25}}, {"long_factor", {1.5, 60.1}}}}},
      {{"model_type", "phi3"},
       {"head_dim", 4},
       {"original_max_position_embeddings", 77},
       {"rope_parameters",
        {{"rope_type", "longrope"},
         {"rope_theta", 55},
         {"attention_factor", 1.19},
         {"short_factor", {1, 2}},
         {"long_factor", {3, 4}}}}},
      {{"model_type", "granite"}},
      {{"model_type", "granite"},
       {"logits_scaling", 49.0},  // 1 / (1 / 49.0) is another number
       {"attention_multiplier", 0.0078125},
       {"embedding_multiplier", 12},
       {"residual_multiplier", 0.22},
       {"mlp_bias", true},
       {"attention_bias", true}},
      {{"model_type", "gemma2"}},
      {{"model_type", "gemma2"},
       {"num_hidden_layers", 2},
       {"layer_types", {"full_attention", "sliding_attention"}},
       {"attn_logit_softcapping", nullptr},
       {"final_logit_softcapping", nullptr},
       {"query_pre_attn_scalar", 144},
       {"rope_theta", 77},
       {"attention_bias", true}},
      {{"model_type", "gemma2"}, {"attn_logit_softcapping", 0.1}, {"final_logit_softcapping", 7.5}},
      {{"model_type", "gemma3_text"}},
      {{"model_type", "gemma3_text"},
       {"final_logit_softcapping", 20.0},
       {"sliding_window_pattern", 2},
       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
       {"query_pre_attn_scalar", 168},
       {"tie_word_embeddings", false},
       {"attention_bias", true},
       {"pad_token_id", nullptr}},
      {{"model_type", "gemma3_text"}, {"sliding_window_pattern", 1}, {"sliding_window", 77}},
      {{"model_type", "gemma3_text"},
       {"num_hidden_layers", 2},
       {"layer_types", {"sliding_attention", "sliding_attention"}},
       {"rope_local_base_freq", 77},
       {"rope_theta", 55}},
      {{"model_type", "mixtral"}},
      {{"model_type", "mixtral"},
       {"num_experts", 5},
       {"num_experts_per_tok", 3},
       {"sliding_window", 77},
       {"head_dim", 64},
       {"tie_word_embeddings", true},
       {"pad_token_id", -1}},
      {{"model_type", "mixtral"}, {"rope_parameters", llama3}, {"num_key_value_heads", nullptr}},
      {{"model_type", "mixtral"}, {"output_router_logits", true}},
      {{"model_type", "qwen3_moe"}, {"output_router_logits", true}, {"router_aux_loss_coef", 0.02}},
      {{"model_type", "qwen3_moe"}},
      {{"model_type", "qwen3_moe"},
       {"num_hidden_layers", 5},
       {"decoder_sparse_step", 2},
       {"mlp_only_layers", {3}},
       {"num_local_experts", 5},
       {"num_experts_per_tok", 5},
       {"moe_intermediate_size", 11},
       {"norm_topk_prob", true},
       {"attention_bias", true},
       {"head_dim", 128},
       {"pad_token_id", 0}},
      {{"model_type", "qwen3_moe"}, {"use_sliding_window", true}, {"rope_theta", 1e6}},
      {{"model_type", "qwen3_moe"}, {"use_sliding_window", true}, {"sliding_window", nullptr}},
      {{"model_type", "qwen3_moe"}, {"num_experts", 0}, {"num_experts_per_tok", 3}},
  };
  for (const json& config : configs) {
    const Architecture a = parse(config);
    EXPECT_EQ(parse(to_hf_config(a)), a) << config;
    EXPECT_EQ(to_hf_config(a)["model_type"], config["model_type"]);
  }
}

TEST(Architecture, EveryQueryScaleOfGemmaIsWrittenAsTheNumberThatItWasReadFrom) {
  for (std::int64_t scalar = 1; scalar <= 4096; ++scalar) {
    const Architecture a = parse({{"model_type", "gemma3_text"}, {"query_pre_attn_scalar", scalar}});
    EXPECT_EQ(to_hf_config(a)["query_pre_attn_scalar"], scalar);
  }
}

TEST(Architecture, OfEveryGoldenIsWrittenAndReadBackToTheSameModel) {
  const std::filesystem::path goldens = test::source_folder() / "tests/parity/goldens";
  for (const char* name : {"gpt2", "llama-tied", "llama-untied", "llama-padding", "mistral", "qwen2", "qwen3",
                           "olmo2", "phi3", "phi3-long", "granite", "gemma2", "gemma3", "mixtral",
                           "mixtral-balanced", "qwen3-moe", "qwen3-moe-balanced", "qwen3-moe-dense"}) {
    const Architecture a = parse(json::parse(std::ifstream(goldens / name / "model/config.json")));
    EXPECT_EQ(parse(to_hf_config(a)), a) << name;
  }
}

TEST(Architecture, ThePaddingTokenThatIsNotNamedIsThatOfTheConfigClass) {
  EXPECT_EQ(parse({{"model_type", "phi3"}}).padding_token, 32000);
  EXPECT_EQ(parse({{"model_type", "olmo2"}}).padding_token, 1);
  EXPECT_EQ(parse({{"model_type", "gemma3_text"}}).padding_token, 0);
  EXPECT_EQ(parse({{"model_type", "granite"}}).padding_token, std::nullopt);
}

TEST(Architecture, LongRopeScalesByTheRatioOfPositionsUnlessTheFileSaysHowMuch) {
  const auto long_rope = [](const json& settings) {
    json parameters = {
        {"rope_type", "longrope"}, {"short_factor", {1.0, 1.25}}, {"long_factor", {1.5, 60.1}}};
    parameters.update(settings);
    return parse({{"model_type", "phi3"},
                  {"head_dim", 4},
                  {"max_position_embeddings", 131072},
                  {"rope_scaling", parameters}})
        .rope.long_rope;
  };
  EXPECT_DOUBLE_EQ(long_rope(json::object())->attention_factor, std::sqrt(1 + std::log(32) / std::log(4096)));
  EXPECT_EQ(long_rope(json::object())->original_max_positions, 4096);
  EXPECT_EQ(long_rope({{"original_max_position_embeddings", 8}}), long_rope(json::object()));
  EXPECT_DOUBLE_EQ(long_rope({{"factor", 8.0}})->attention_factor,
                   std::sqrt(1 + std::log(8) / std::log(4096)));
  EXPECT_EQ(long_rope({{"factor", 0.5}})->attention_factor, 1);
  EXPECT_EQ(long_rope({{"attention_factor", 1.25}})->attention_factor, 1.25);
}

TEST(Architecture, GraniteScalesQueriesByItsMultiplierInsteadOfTheHeads) {
  EXPECT_EQ(parse({{"model_type", "granite"}}).query_scale, 1);
  EXPECT_EQ(parse({{"model_type", "granite"}, {"attention_multiplier", 0.25}}).query_scale, 0.25);
}

TEST(Architecture, EveryOtherLayerOfGemma2SlidesAndItsCapsAreOnUnlessTheyAreNull) {
  const Architecture a = parse({{"model_type", "gemma2"}, {"num_hidden_layers", 3}});
  EXPECT_EQ(a.slides, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(a.window, 4096);
  EXPECT_EQ(a.rope, RopeOptions{});
  EXPECT_EQ(a.scores_cap, 50);
  EXPECT_EQ(a.logits_cap, 30);
  EXPECT_FALSE(a.qk_norm);
  EXPECT_EQ(a.padding_token, 0);
  const Architecture without = parse(
      {{"model_type", "gemma2"}, {"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(without.scores_cap, 0);
  EXPECT_EQ(without.logits_cap, 0);
  EXPECT_EQ(parse({{"model_type", "gemma3_text"}}).logits_cap, 0);
}

TEST(Architecture, EverySixthLayerOfGemma3SeesAllAndRotatesByAnotherTheta) {
  const Architecture a = parse({{"model_type", "gemma3_text"}, {"num_hidden_layers", 7}});
  EXPECT_EQ(a.slides, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(a.window, 4096);
  EXPECT_EQ(a.rope.theta, 1e6);
  EXPECT_EQ(a.sliding_rope->theta, 1e4);
  EXPECT_EQ(a.query_scale, 1.0 / 16);
  EXPECT_TRUE(a.tied_head);
}

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

TEST(Architecture, GemmasRopeScalingStandsOverItsRopeParameters) {
  const Architecture a = parse({{"model_type", "gemma3_text"},
                                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}},
                                {"rope_parameters",
                                 {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 50.0}}},
                                  {"sliding_attention", nullptr}}}});
  EXPECT_EQ(a.rope.linear_factor, 4);
  EXPECT_EQ(a.rope.theta, 50);
  EXPECT_EQ(a.sliding_rope, RopeOptions{});
}

}  // namespace
}  // namespace strata
