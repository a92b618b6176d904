#include "engine/model/architecture.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/model/config_keys.h"
#include "engine/model/dropout.h"
#include "engine/model/json_reader.h"

namespace strata {
namespace {

/// Sizes up to these keep every product of three of them inside 64 bits; no real model comes near.
constexpr std::int64_t kLargestWidth = std::int64_t{1} << 20;
constexpr std::int64_t kLargestCount = 100'000;
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 30;  // kernels mark the absence of a row by it

/// What HF's config classes of transformers 5 assume if a key is absent.
struct LlamaDefaults {
  std::int64_t vocabulary, intermediate, max_positions;
  std::optional<std::int64_t> kv_heads, head_dimension;  // nothing: as many as heads; hidden / heads
};

LlamaDefaults llama_defaults(const std::string& model_type) {
  if (model_type == "mistral") return {32000, 14336, 131072, 8, {}};
  if (model_type == "qwen2") return {151936, 22016, 32768, 32, {}};
  if (model_type == "qwen3") return {151936, 22016, 32768, 32, 128};
  return {32000, 11008, 2048, {}, {}};
}

/// Options that must have their plain value, because anything else is another computation.
void require_plain(JsonReader& reader, const std::string& key, bool plain) {
  if (reader.boolean(key, plain) != plain) reader.refuse(key, fmt::format("supported: {}", plain));
}

/// Options that are off if they are null or empty.
void require_empty(JsonReader& reader, const std::string& key, const std::string& expected) {
  if (reader.has(key) && !reader.at(key).empty()) reader.refuse(key, expected);
}

void refuse_common_options(JsonReader& reader) {
  if (reader.has("quantization_config")) {
    reader.refuse("quantization_config",
                  "quantized weights are not supported; use the folder with full-precision weights");
  }
  require_plain(reader, "is_causal", true);
  require_plain(reader, "is_encoder_decoder", false);
  require_plain(reader, "add_cross_attention", false);
  require_plain(reader, "torchscript", false);  // transformers 4 then left a tied head untied
  require_plain(reader, "rope_interleaved", false);
  require_plain(reader, "use_mrope", false);
  require_empty(reader, "pruned_heads", "pruned heads are not supported");
  require_empty(reader, "per_layer_config", "layers that differ are not supported");
  require_empty(reader, "fusion_config", "fused layers are not supported");
}

/// What remains is known to change nothing, or refused.
void refuse_unknown_keys(JsonReader& reader, Family family) {
  for (const std::string_view key : dropout_keys(family)) read_dropout(reader, key);
  for (const auto groups : {inert_keys(), inert_keys(family)}) {
    for (const InertKeys& group : groups) {
      for (const std::string_view key : group.keys) reader.ignore(key);
    }
  }
  reader.refuse_unknown_keys();
}

void require_activation(JsonReader& reader, const std::string& key, const std::string& fallback,
                        const std::string& alias) {
  const std::string activation = reader.text(key, fallback);
  if (activation != fallback && activation != alias) {
    reader.refuse(key, fmt::format("supported: \"{}\" (and its other name \"{}\")", fallback, alias));
  }
}

double positive(JsonReader& reader, const std::string& key, std::optional<double> fallback) {
  const double value = reader.number(key, fallback);
  if (!(value > 0)) reader.refuse(key, "expected a positive number");
  return value;
}

double initializer_range(JsonReader& reader) {
  const double value = reader.number("initializer_range", 0.02);
  if (!(value >= 0)) reader.refuse("initializer_range", "expected a number that is not negative");
  return value;
}

/// GPT-2's sizes go by the names n_embd, … or by HF's common ones, which its attribute_map equates.
std::int64_t gpt2_size(JsonReader& reader, const std::string& key, const std::string& common_key,
                       std::int64_t fallback, std::int64_t maximum) {
  const bool has_common = reader.has(common_key) || reader.is_null(common_key);
  if (reader.has(key) && has_common && reader.at(key) != reader.at(common_key)) {
    reader.refuse(key, fmt::format("but {}, its other name, is {}; keep one of them", common_key,
                                   reader.at(common_key).dump()));
  }
  return reader.integer(has_common && !reader.has(key) ? common_key : key, fallback, 1, maximum);
}

void read_gpt2(JsonReader& reader, Architecture& a) {
  a.family = Family::gpt2;
  a.layers = gpt2_size(reader, "n_layer", "num_hidden_layers", 12, kLargestCount);
  a.hidden = gpt2_size(reader, "n_embd", "hidden_size", 768, kLargestWidth);
  a.heads = gpt2_size(reader, "n_head", "num_attention_heads", 12, kLargestWidth);
  a.max_positions = gpt2_size(reader, "n_positions", "max_position_embeddings", 1024, kLargestVocabulary);
  if (a.hidden % a.heads != 0) {
    reader.fail(fmt::format("n_embd {} is not a multiple of n_head {}", a.hidden, a.heads));
  }
  a.kv_heads = a.heads;
  a.head_dimension = a.hidden / a.heads;
  a.intermediate = reader.is_null("n_inner") ? 4 * a.hidden
                                             : reader.integer("n_inner", 4 * a.hidden, 1, 4 * kLargestWidth);
  a.vocabulary = reader.integer("vocab_size", 50257, 1, kLargestVocabulary);
  a.norm_epsilon = positive(reader, "layer_norm_epsilon", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", true);
  require_activation(reader, "activation_function", "gelu_new", "gelu_pytorch_tanh");
  require_plain(reader, "scale_attn_weights", true);
  require_plain(reader, "scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn reorders the same computation, but in another precision than ours.
  require_plain(reader, "reorder_and_upcast_attn", false);
}

RopeOptions::Llama3 read_llama3_rope(JsonReader& reader, JsonReader& outside, const Architecture& a) {
  RopeOptions::Llama3 llama3{};
  llama3.factor = positive(reader, "factor", {});
  llama3.low_frequency_factor = positive(reader, "low_freq_factor", {});
  llama3.high_frequency_factor = positive(reader, "high_freq_factor", {});
  if (llama3.high_frequency_factor <= llama3.low_frequency_factor) {
    reader.refuse("high_freq_factor", "expected more than low_freq_factor");
  }
  const std::string original = "original_max_position_embeddings";
  llama3.original_max_positions = reader.integer(original, a.max_positions, 1, kLargestVocabulary);
  llama3.original_max_positions =
      outside.integer(original, llama3.original_max_positions, 1, kLargestVocabulary);
  return llama3;
}

/// Rope settings live in rope_parameters (transformers 5), or in rope_scaling and rope_theta (before). If
/// both are given, transformers lets rope_scaling win, a theta inside win over one outside, and the original
/// number of positions outside over that inside.
RopeOptions read_rope(JsonReader& reader, const Architecture& a, const std::string& where) {
  RopeOptions rope;
  rope.theta = positive(reader, "rope_theta", 10000.0);
  if (reader.number("partial_rotary_factor", 1.0) != 1.0)
    reader.refuse("partial_rotary_factor", "supported: 1");
  reader.ignore("original_max_position_embeddings");  // only llama3's frequencies depend on it
  const bool has_parameters = reader.has("rope_parameters");
  const bool has_scaling = reader.has("rope_scaling") && !reader.at("rope_scaling").empty();
  if (!has_parameters && !has_scaling) return rope;
  const std::string key = has_scaling ? "rope_scaling" : "rope_parameters";

  JsonReader parameters(reader.at(key), fmt::format("{}: {}", where, key));
  rope.theta = positive(parameters, "rope_theta", rope.theta);
  if (parameters.number("partial_rotary_factor", 1.0) != 1.0)
    parameters.refuse("partial_rotary_factor", "supported: 1");
  const std::string old_type = parameters.text("type", "default");
  const std::string type = parameters.text("rope_type", old_type);
  const std::string type_key = reader.at(key).contains("rope_type") ? "rope_type" : "type";
  for (const std::string layer_type : {"full_attention", "sliding_attention"}) {
    if (parameters.has(layer_type))
      parameters.refuse(layer_type, "rope settings by layer type are not supported");
  }
  if (type == "llama3") {
    rope.llama3 = read_llama3_rope(parameters, reader, a);
  } else if (type != "default") {
    parameters.refuse(type_key, "supported: \"default\", \"llama3\"");
  }
  parameters.refuse_unknown_keys();
  return rope;
}

/// Without a window, transformers fails if layer_types names layers that should have one.
[[noreturn]] void refuse_missing_window(const JsonReader& reader) {
  reader.refuse("layer_types",
                "sliding_attention needs use_sliding_window: true and a sliding_window; give both, or list "
                "full_attention");
}

/// Qwen's window holds for some layers only: those that layer_types names, or all from max_window_layers on.
std::int64_t read_qwen_window(JsonReader& reader, const Architecture& a) {
  const bool is_null = reader.is_null("sliding_window");
  const std::int64_t window = is_null ? 0 : reader.integer("sliding_window", 4096, 1, kLargestVocabulary);
  const bool use = reader.boolean("use_sliding_window", false) && !is_null;
  const std::int64_t first = reader.integer("max_window_layers", 28, 0, kLargestCount);
  std::int64_t sliding = use ? std::max<std::int64_t>(a.layers - first, 0) : 0;
  std::string key = "max_window_layers";
  if (reader.has("layer_types")) {
    key = "layer_types";
    const nlohmann::json& types = reader.at(key);
    const std::int64_t full = std::count(types.begin(), types.end(), "full_attention");
    sliding = std::count(types.begin(), types.end(), "sliding_attention");
    if (!types.is_array() || full + sliding != a.layers || std::ssize(types) != a.layers) {
      reader.refuse(key,
                    fmt::format("expected \"full_attention\" or \"sliding_attention\" for each of {} layers",
                                a.layers));
    }
    if (!use && sliding > 0) refuse_missing_window(reader);
  }
  if (sliding != 0 && sliding != a.layers) {
    reader.refuse(
        key,
        fmt::format("with use_sliding_window {} of {} layers would have a window; supported: all or none",
                    sliding, a.layers));
  }
  return sliding == 0 ? 0 : window;
}

void read_llama_sizes(JsonReader& reader, Architecture& a) {
  const LlamaDefaults defaults = llama_defaults(a.model_type);
  a.layers = reader.integer("num_hidden_layers", 32, 1, kLargestCount);
  a.hidden = reader.integer("hidden_size", 4096, 1, kLargestWidth);
  a.heads = reader.integer("num_attention_heads", 32, 1, kLargestWidth);
  a.kv_heads =
      reader.is_null("num_key_value_heads")
          ? a.heads
          : reader.integer("num_key_value_heads", defaults.kv_heads.value_or(a.heads), 1, kLargestWidth);
  if (a.heads % a.kv_heads != 0) {
    reader.fail(fmt::format(
        "num_attention_heads {} is not a multiple of num_key_value_heads {}{}", a.heads, a.kv_heads,
        reader.has("num_key_value_heads") ? "" : ", its default; set num_key_value_heads"));
  }
  // LlamaConfig refuses what does not divide even if head_dim is given, so that a file of ours must not
  // have it.
  const bool needs_division =
      a.model_type == "llama" || (!defaults.head_dimension && !reader.has("head_dim"));
  if (needs_division && a.hidden % a.heads != 0) {
    reader.fail(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", a.hidden, a.heads));
  }
  a.head_dimension = defaults.head_dimension.value_or(std::max<std::int64_t>(a.hidden / a.heads, 1));
  const bool null_is_default =
      a.model_type == "llama" || a.model_type == "mistral";  // transformers fails elsewhere
  if (!null_is_default || !reader.is_null("head_dim")) {
    a.head_dimension = reader.integer("head_dim", a.head_dimension, 1, kLargestWidth);
  }
  if (a.head_dimension % 2 != 0) {
    reader.fail(
        fmt::format("the head dimension {} is odd; rotary embeddings need an even one", a.head_dimension));
  }
  if (a.query_columns() > kLargestWidth) {
    reader.fail(
        fmt::format("{} heads of dimension {} are wider than {}", a.heads, a.head_dimension, kLargestWidth));
  }
  a.intermediate = reader.integer("intermediate_size", defaults.intermediate, 1, 4 * kLargestWidth);
  a.vocabulary = reader.integer("vocab_size", defaults.vocabulary, 1, kLargestVocabulary);
  a.max_positions = reader.integer("max_position_embeddings", defaults.max_positions, 1, kLargestVocabulary);
}

/// The embedding's padding_idx in transformers. Torch counts a negative one from the table's end.
std::optional<std::int64_t> read_padding_token(JsonReader& reader, const Architecture& a) {
  if (!reader.has("pad_token_id")) return {};
  const std::int64_t token = reader.integer("pad_token_id", {}, -a.vocabulary, a.vocabulary - 1);
  return token < 0 ? token + a.vocabulary : token;
}

std::int64_t read_mistral_window(JsonReader& reader) {
  if (reader.has("layer_types") || reader.is_null("layer_types")) {
    reader.refuse("layer_types",
                  "transformers takes a mistral that has this key for another model, ministral, which is not "
                  "supported; take it out if every layer has the sliding_window");
  }
  return reader.is_null("sliding_window") ? 0 : reader.integer("sliding_window", 4096, 1, kLargestVocabulary);
}

void read_llama(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_llama_sizes(reader, a);
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-6);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.qkv_bias = a.model_type == "qwen2";
  a.qk_norm = a.model_type == "qwen3";
  require_activation(reader, "hidden_act", "silu", "swish");
  require_plain(reader, "attention_bias", false);
  require_plain(reader, "mlp_bias", false);
  a.padding_token = read_padding_token(reader, a);
  a.rope = read_rope(reader, a, where);
  if (a.model_type == "mistral") {
    a.window = read_mistral_window(reader);
  } else if (a.model_type == "qwen2" || a.model_type == "qwen3") {
    a.window = read_qwen_window(reader, a);
  }
}

nlohmann::json gpt2_config(const Architecture& a) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", a.layers},
          {"n_embd", a.hidden},
          {"n_head", a.heads},
          {"n_inner", a.intermediate},
          {"n_positions", a.max_positions},
          {"layer_norm_epsilon", a.norm_epsilon},
          {"activation_function", "gelu_new"},
          // Strata trains without dropout; HF's default is 0.1.
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

/// The spelling before transformers 5, which later versions read too.
nlohmann::json rope_scaling(const RopeOptions& rope) {
  if (!rope.llama3) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", rope.llama3->factor},
          {"low_freq_factor", rope.llama3->low_frequency_factor},
          {"high_freq_factor", rope.llama3->high_frequency_factor},
          {"original_max_position_embeddings", rope.llama3->original_max_positions}};
}

nlohmann::json llama_config(const Architecture& a) {
  std::string family = "Llama";
  if (a.model_type == "mistral") family = "Mistral";
  if (a.model_type == "qwen2") family = "Qwen2";
  if (a.model_type == "qwen3") family = "Qwen3";
  nlohmann::json config = {{"architectures", {family + "ForCausalLM"}},
                           {"num_hidden_layers", a.layers},
                           {"hidden_size", a.hidden},
                           {"num_attention_heads", a.heads},
                           {"num_key_value_heads", a.kv_heads},
                           {"head_dim", a.head_dimension},
                           {"intermediate_size", a.intermediate},
                           {"max_position_embeddings", a.max_positions},
                           {"rms_norm_eps", a.norm_epsilon},
                           {"hidden_act", "silu"},
                           {"rope_theta", a.rope.theta},
                           {"rope_scaling", rope_scaling(a.rope)}};
  if (a.padding_token) config["pad_token_id"] = *a.padding_token;
  if (a.model_type == "mistral")
    config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  if (a.model_type == "qwen2" || a.model_type == "qwen3") {
    config["use_sliding_window"] = a.window != 0;
    if (a.window != 0) config["sliding_window"] = a.window;
    config["max_window_layers"] = a.window != 0 ? 0 : a.layers;
  }
  return config;
}

}  // namespace

Architecture parse_architecture(const nlohmann::json& config, const std::string& where) {
  JsonReader reader(config, where);
  Architecture a;
  a.model_type = reader.text("model_type", {});
  const std::string supported = "supported: gpt2, llama, mistral, qwen2, qwen3";
  if (a.model_type == "gpt2") {
    read_gpt2(reader, a);
  } else if (a.model_type == "llama" || a.model_type == "mistral" || a.model_type == "qwen2" ||
             a.model_type == "qwen3") {
    read_llama(reader, a, where);
  } else {
    reader.refuse("model_type", supported);
  }
  a.initializer_range = initializer_range(reader);
  refuse_common_options(reader);
  refuse_unknown_keys(reader, a.family);
  return a;
}

nlohmann::json to_hf_config(const Architecture& architecture) {
  nlohmann::json config =
      architecture.family == Family::gpt2 ? gpt2_config(architecture) : llama_config(architecture);
  config["model_type"] = architecture.model_type;
  config["vocab_size"] = architecture.vocabulary;
  config["initializer_range"] = architecture.initializer_range;
  config["tie_word_embeddings"] = architecture.tied_head;
  // A vocabulary of our own has no special tokens; HF's default ids might not even be inside it.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  return config;
}

}  // namespace strata
