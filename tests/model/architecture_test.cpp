// What is read of every config.json, and that what is written is read back to the same model.
#include "engine/model/architectures/architecture.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/model/architecture_support.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST_P(ArchitectureRefusal, NamesSourceKeyValueAndWhatIsSupported) {
  std::vector<std::string> parts = GetParam().parts;
  parts.emplace_back("folder/config.json: ");
  expect_error<ConfigError>([] { parse(GetParam().config); }, parts);
}

const Refusal kRefusals[] = {
    {"NoObject", json::array(), {"expected a JSON object"}},
    {"NoModelType", json::object(), {"model_type is missing"}},
    {"ModelType",
     {{"model_type", "bert"}},
     {"model_type is \"bert\"",
      "gpt2, llama, mistral, qwen2, qwen3, olmo2, phi3, granite, gemma2, gemma3_text"}},
    {"Quantized",
     {{"model_type", "llama"}, {"quantization_config", {{"bits", 4}}}},
     {"quantization_config", "full-precision"}},
    {"NullCausal", {{"model_type", "llama"}, {"is_causal", nullptr}}, {"is_causal is null", "true or false"}},
    {"LayersThatDiffer",
     {{"model_type", "llama"}, {"per_layer_config", {{"1", {{"rms_norm_eps", 0.1}}}}}},
     {"per_layer_config is {", "not supported"}},
    {"PaddingToken",
     {{"model_type", "llama"}, {"vocab_size", 100}, {"pad_token_id", 100}},
     {"pad_token_id is 100", "from -100 to 99"}},
    {"NullSize",
     {{"model_type", "llama"}, {"hidden_size", nullptr}},
     {"hidden_size is null", "integer from 1"}},
    {"WrongType",
     {{"model_type", "llama"}, {"hidden_size", "4096"}},
     {"hidden_size is \"4096\"", "integer from 1 to"}},
    {"Fraction", {{"model_type", "llama"}, {"hidden_size", 4096.5}}, {"hidden_size is 4096.5", "integer"}},
    {"Zero", {{"model_type", "llama"}, {"num_hidden_layers", 0}}, {"num_hidden_layers is 0"}},
    {"Huge",
     {{"model_type", "llama"}, {"vocab_size", 18446744073709551615ULL}},
     {"vocab_size is 18446744073709551615"}},
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
};

INSTANTIATE_TEST_SUITE_P(All, ArchitectureRefusal, ::testing::ValuesIn(kRefusals), name_of_refusal);

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
      {{"model_type", "starcoder2"}},
      {{"model_type", "starcoder2"},
       {"use_bias", false},
       {"sliding_window", 70},
       {"tie_word_embeddings", false}},
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

TEST(Architecture, OfEveryGoldenIsWrittenAndReadBackToTheSameModel) {
  const std::filesystem::path goldens = source_folder() / "tests/parity/goldens";
  for (const char* name :
       {"gpt2", "llama-tied", "llama-untied", "llama-padding", "mistral", "qwen2", "qwen3", "olmo2", "phi3",
        "phi3-long", "granite", "starcoder2", "gemma2", "gemma3", "mixtral", "mixtral-balanced", "qwen3-moe",
        "qwen3-moe-balanced", "qwen3-moe-dense"}) {
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

}  // namespace
}  // namespace strata::test
