// Every key that transformers has for a family is read, known to change nothing, or refused: config_keys.json
// says what each of them does there (tests/parity/list_config_keys.py).
#include "engine/model/architectures/config_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/model/architectures/dropout.h"
#include "tests/base/expect_error.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using nlohmann::json;

const json& facts() {
  static const json facts =
      json::parse(std::ifstream(test::source_folder() / "tests/model/config_keys.json"));
  return facts;
}

constexpr std::int64_t kPredicting = 11;  ///< tokens of list_config_keys.py that predict another

/// Scaling that changes only sequences that are longer.
void forget_longer_sequences(RopeOptions& rope) {
  if (rope.dynamic && rope.dynamic->max_positions > kPredicting) rope.dynamic = {};
}

/// What Strata makes of a config: a model, perhaps with a warning, or nothing if it is refused.
struct Reading {
  Architecture architecture;
  bool warned = false;
};

std::optional<Reading> read(json config, const json& changes) {
  config.update(changes);
  try {
    Reading reading{parse_architecture(config, "config.json"),
                    !dropout_warning(config, "config.json", /*applies=*/false).empty()};
    if (reading.architecture.window >= kPredicting) reading.architecture.window = 0;
    forget_longer_sequences(reading.architecture.rope);
    if (reading.architecture.sliding_rope) forget_longer_sequences(*reading.architecture.sliding_rope);
    // The one says how long sequences may be, the other how new weights are drawn.
    reading.architecture.max_positions = 0;
    reading.architecture.initializer_range = 0;
    return reading;
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("config.json: ")) << error.what();
    return {};
  }
}

/// Whether the key has an effect with the same kind of value in its other form: 2 and 2.0 are numbers.
bool is_other_form_of_another(const json& value, const json& group) {
  const bool is_whole = value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
  if (!is_whole) return false;
  for (const char* effect : {"same", "changes"})
    for (const json& other : group[effect])
      if (other.is_number() && other.is_number_float() != value.is_number_float()) return true;
  return false;
}

class ConfigKeys : public ::testing::TestWithParam<std::string> {
 protected:
  const json& family() const { return facts()[GetParam()]; }
  const json& config() const { return family()["config"]; }
  std::optional<Reading> read_with(const json& changes) const { return read(config(), changes); }
  Architecture plain() const { return read_with(json::object())->architecture; }

  /// What is accepted must be what transformers computes.
  void expect_as_in_transformers(const json& changes, const std::string& effect) const {
    const std::optional<Reading> reading = read_with(changes);
    if (!reading) return;
    if (effect == "same") {
      EXPECT_EQ(reading->architecture, plain()) << changes;
      EXPECT_FALSE(reading->warned) << changes;
    } else {
      EXPECT_EQ(effect, "changes") << "accepted, but transformers refuses " << changes;
      EXPECT_TRUE(reading->warned || reading->architecture != plain()) << "ignored " << changes;
    }
  }
};

TEST_P(ConfigKeys, HaveTheirMeaningInTransformersOrAreRefused) {
  for (const json& group : family()["keys"]) {
    // If no value changes anything, a rejected one is of another type, which changes nothing either.
    const bool matters = !group["changes"].empty();
    for (const std::string key : group["keys"]) {
      for (const std::string effect : {"same", "changes", "rejected"}) {
        if (effect == "rejected" && !matters) continue;
        for (const json& value : group[effect]) {
          // transformers takes no 2 for 2.0 and no 2.0 for 2; there is nothing else that they could mean.
          if (effect == "rejected" && is_other_form_of_another(value, group)) continue;
          expect_as_in_transformers({{key, value}}, effect);
        }
      }
    }
  }
}

TEST_P(ConfigKeys, HaveTheirMeaningTogether) {
  for (const std::string effect : {"same", "changes", "rejected"}) {
    for (const json& changes : family()["combinations"][effect]) expect_as_in_transformers(changes, effect);
  }
}

TEST_P(ConfigKeys, GiveOneModelWhereTransformersDoes) {
  for (const json& pair : family()["pairs"]) {
    const std::optional<Reading> left = read_with(pair[0]), right = read_with(pair[1]);
    if (!left || !right) continue;
    EXPECT_EQ(left->architecture, right->architecture) << pair;
  }
}

TEST_P(ConfigKeys, OfTheConfigClassAreAllAcceptedWithTheirDefaults) {
  const json plain = {{"model_type", GetParam()}};
  const Architecture expected = parse_architecture(plain, "config.json");
  EXPECT_EQ(parse_architecture(family()["defaults"], "config.json"), expected);
  for (const auto& [key, value] : family()["defaults"].items()) {
    json one = plain;
    one[key] = value;
    EXPECT_EQ(parse_architecture(one, "config.json"), expected) << key;
  }
}

TEST_P(ConfigKeys, ThatChangeNothingChangeNothingInTransformers) {
  std::map<std::string, bool> matters;
  for (const json& group : family()["keys"]) {
    for (const std::string key : group["keys"]) matters[key] = !group["changes"].empty();
  }
  for (const auto groups : {inert_keys(), inert_keys(plain().family)}) {
    for (const InertKeys& group : groups) {
      for (const std::string_view key : group.keys) {
        const auto found = matters.find(std::string(key));
        ASSERT_NE(found, matters.end()) << key << " was not tried; add it to list_config_keys.py";
        EXPECT_FALSE(found->second) << key;
      }
    }
  }
}

TEST_P(ConfigKeys, ThatNobodyKnowsAreRefusedInOneSentence) {
  for (const json& value : {json(3), json(nullptr), json::object()}) {
    json config = this->config();
    config["attention_sink"] = value;
    test::expect_error<ConfigError>([&] { parse_architecture(config, "folder/config.json"); },
                                    {"folder/config.json: unknown key attention_sink (" + value.dump() + ")",
                                     "take it out if the model computes the same without it"});
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigKeys,
                         ::testing::Values("gpt2", "llama", "mistral", "qwen2", "qwen3", "olmo2", "phi3",
                                           "granite", "gemma2", "gemma3_text", "mixtral", "qwen3_moe",
                                           "starcoder2"),
                         [](const auto& info) { return info.param; });

/// tests/parity/make_number_forms.py has tried every number of every family in transformers, as 2 and as 2.0.
TEST(NumberForms, AreReadWhereTransformersReadsThem) {
  const json forms = json::parse(std::ifstream(test::source_folder() / "tests/model/number_forms.json"));
  for (const auto& [model_type, family] : forms.items()) {
    for (const char* which : {"both", "float"}) {
      for (const json& form : family[which]) {
        json real = form["changes"];
        json& number = real[json::json_pointer(form["place"].get<std::string>())];
        number = number.is_array() ? json(number.get<std::vector<double>>()) : json(number.get<double>());
        const std::optional<Reading> of_integer = read(family["config"], form["changes"]),
                                     of_float = read(family["config"], real);
        ASSERT_EQ(of_integer.has_value(), of_float.has_value()) << model_type << " " << real;
        if (of_float) {
          EXPECT_EQ(of_integer->architecture, of_float->architecture) << model_type << " " << real;
        }
      }
    }
  }
}

/// The config.json of well-known checkpoints, word by word where it matters.
TEST(HubConfig, OfEveryFamilyIsRead) {
  const char* const configs[] = {
      // openai-community/gpt2
      R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
          "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
          "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
          "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
          "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
          "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true,
          "max_length": 50}}, "vocab_size": 50257})",
      // meta-llama/Llama-2-7b-hf
      R"({"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
          "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
          "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
          "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
          "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
          "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
          "use_cache": true, "vocab_size": 32000})",
      // meta-llama/Llama-3.2-1B-Instruct
      R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64,
          "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
          "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
          "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
          "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
          "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
          "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
          "vocab_size": 128256})",
      // mistralai/Mistral-7B-v0.1 and v0.3
      R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
          "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
          "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
          "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
          "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
          "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})",
      R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
          "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
          "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
          "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
          "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0",
          "use_cache": true, "vocab_size": 32768})",
      // Qwen/Qwen2.5-7B
      R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
          "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
          "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
          "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28,
          "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
          "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
          "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false,
          "use_sliding_window": false, "vocab_size": 152064})",
      // Qwen/Qwen3-0.6B
      R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
          "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
          "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
          "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
          "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
          "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
          "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
      // allenai/OLMo-2-1124-7B
      R"({"architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
          "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "olmo2",
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
          "pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000,
          "tie_word_embeddings": false, "torch_dtype": "float32", "transformers_version": "4.47.0",
          "use_cache": true, "vocab_size": 100352})",
      // microsoft/Phi-3-mini-4k-instruct
      R"({"_name_or_path": "Phi-3-mini-4k-instruct", "architectures": ["Phi3ForCausalLM"],
          "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config",
          "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}, "bos_token_id": 1, "embd_pdrop": 0.0,
          "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
          "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3",
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
          "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0,
          "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047,
          "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.40.2",
          "use_cache": true, "attention_bias": false, "vocab_size": 32064})",
      // ibm-granite/granite-3.1-2b-base
      R"({"architectures": ["GraniteForCausalLM"], "attention_bias": false, "attention_dropout": 0.1,
          "attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0,
          "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
          "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 131072,
          "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40,
          "num_key_value_heads": 8, "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05,
          "rope_scaling": null, "rope_theta": 5000000.0, "tie_word_embeddings": true,
          "torch_dtype": "bfloat16", "transformers_version": "4.47.0", "use_cache": true,
          "vocab_size": 49152})",
      // google/gemma-2-2b
      R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
          "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256,
          "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
          "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 8192,
          "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
          "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256,
          "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32",
          "transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 256000})",
      // google/gemma-3-1b-pt
      R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
          "eos_token_id": 1, "final_logit_softcapping": null, "head_dim": 256,
          "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
          "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text",
          "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
          "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
          "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
          "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "use_cache": true,
          "vocab_size": 262144})",
      // google/gemma-3-270m
      R"({"_sliding_window_pattern": 6, "architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
          "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": 1,
          "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
          "hidden_size": 640, "initializer_range": 0.02, "intermediate_size": 2048,
          "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
          "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
          "num_hidden_layers": 3, "num_key_value_heads": 1, "pad_token_id": 0,
          "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
          "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": 512, "torch_dtype": "bfloat16",
          "transformers_version": "4.55.0.dev0", "use_bidirectional_attention": false, "use_cache": true,
          "vocab_size": 262144})",
      // mistralai/Mixtral-8x7B-v0.1
      R"({"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
          "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
          "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
          "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
          "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
          "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
          "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
          "transformers_version": "4.36.0.dev0", "use_cache": true, "vocab_size": 32000})",
      // Qwen/Qwen3-30B-A3B
      R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128,
          "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
          "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
          "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
          "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
          "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false,
          "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
          "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
          "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
          "use_sliding_window": false, "vocab_size": 151936})",
      // Qwen/Qwen3-Coder-30B-A3B-Instruct
      R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
          "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5472,
          "max_position_embeddings": 262144, "max_window_layers": 28, "mlp_only_layers": [],
          "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
          "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
          "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false,
          "qkv_bias": false, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000,
          "router_aux_loss_coef": 0.0, "shared_expert_intermediate_size": 0, "sliding_window": null,
          "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.52.3",
          "use_cache": true, "use_qk_norm": true, "use_sliding_window": false, "vocab_size": 151936})",
  };
  for (const char* text : configs)
    EXPECT_NO_THROW(parse_architecture(json::parse(text), "config.json")) << text;
}

TEST(Dropout, OfAConfigIsNamedWithItsDefault) {
  const auto warning = [](const json& config) { return dropout_warning(config, "a.json", false); };
  EXPECT_EQ(
      warning({{"model_type", "gpt2"}, {"resid_pdrop", 0.0}, {"embd_pdrop", 0.25}}),
      "a.json: asks for dropout (attn_pdrop 0.1, embd_pdrop 0.25), which is ignored; train.dropout: true "
      "applies embd_pdrop");
  EXPECT_EQ(warning({{"model_type", "llama"}, {"attention_dropout", 0.5}}),
            "a.json: asks for dropout (attention_dropout 0.5), which is ignored; strata drops nothing of "
            "attention's probabilities");
  EXPECT_EQ(warning({{"model_type", "phi3"}, {"resid_pdrop", 0.5}, {"embd_pdrop", 0.5}}),
            "a.json: asks for dropout (resid_pdrop 0.5), which is ignored; train.dropout: true applies "
            "resid_pdrop");
  EXPECT_EQ(warning({{"model_type", "phi3"}}), "");
  EXPECT_EQ(warning({{"model_type", "qwen3"}}), "");
}

TEST(Dropout, OfAttentionIsNamedByARunThatAppliesTheRest) {
  EXPECT_EQ(
      dropout_warning({{"model_type", "gpt2"}}, "a.json", true),
      "a.json: asks for dropout (attn_pdrop 0.1), which is ignored; strata drops nothing of attention's "
      "probabilities");
  EXPECT_EQ(dropout_warning({{"model_type", "phi3"}, {"resid_pdrop", 0.5}}, "a.json", true), "");
}

TEST(Dropout, IsAppliedOfEmbeddingsAndBranches) {
  const auto applied = [](const json& config) {
    Architecture architecture = parse_architecture(config, "a.json");
    apply_dropout(architecture, config, "a.json");
    return std::pair(architecture.embedding_dropout, architecture.residual_dropout);
  };
  EXPECT_EQ(applied({{"model_type", "gpt2"}, {"resid_pdrop", 0.25}}), std::pair(0.1, 0.25));
  json config = facts()["phi3"]["config"];
  config["resid_pdrop"] = 0.5;
  config["embd_pdrop"] = 0.25;
  EXPECT_EQ(applied(config), std::pair(0.0, 0.5));
  test::expect_error<ConfigError>(
      [&] {
        applied({{"model_type", "gpt2"}, {"embd_pdrop", 1.0}});
      },
      {"a.json: embd_pdrop is 1.0; with train.dropout nothing would be left"});
  test::expect_error<ConfigError>(
      [&] {
        applied({{"model_type", "gpt2"}, {"embd_pdrop", 0.0}, {"resid_pdrop", 0.0}});
      },
      {"train.dropout: a.json asks for none; take train.dropout out, or give embd_pdrop or resid_pdrop "
       "there"});
  test::expect_error<ConfigError>([&] { applied(facts()["qwen2"]["config"]); },
                                  {"train.dropout: qwen2 has no dropout but of attention's probabilities"});
}

}  // namespace
}  // namespace strata
