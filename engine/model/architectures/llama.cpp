// Llama and its relatives Mistral, Qwen2 and Qwen3 (transformers: LlamaForCausalLM, …).
// Not in a unity build: each architecture has its own read(), write() and block().
#include <fmt/format.h>

#include <algorithm>

#include "engine/device/activation.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

SizeDefaults size_defaults(const std::string& model_type) {
  if (model_type == "mistral") return {32000, 14336, 131072, 8, {}};
  if (model_type == "qwen2") return {151936, 22016, 32768, 32, {}};
  if (model_type == "qwen3") return {151936, 22016, 32768, 32, 128};
  return {32000, 11008, 2048, {}, {}};
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

std::int64_t read_mistral_window(JsonReader& reader) {
  if (reader.has("layer_types") || reader.is_null("layer_types")) {
    reader.refuse("layer_types",
                  "transformers takes a mistral that has this key for another model, ministral, which is not "
                  "supported; take it out if every layer has the sliding_window");
  }
  return reader.is_null("sliding_window") ? 0 : reader.integer("sliding_window", 4096, 1, kLargestVocabulary);
}

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, size_defaults(a.model_type));
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

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  if (a.model_type == "mistral")
    config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  if (a.model_type == "qwen2" || a.model_type == "qwen3") {
    config["use_sliding_window"] = a.window != 0;
    if (a.window != 0) config["sliding_window"] = a.window;
    config["max_window_layers"] = a.window != 0 ? 0 : a.layers;
  }
  return config;
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  AttentionOptions options = {attention_shape(a)};
  if (a.qk_norm) options.head_norm = rms_norm(a);
  return pre_norm_block(
      a, layer,
      [&](UnitBuilder& builder, const TensorView& x) { return self_attention(builder, x, a, options); },
      [&](UnitBuilder& builder, const TensorView& x) { return gated_mlp(builder, x, a, Activation::silu); });
}

constexpr ArchitectureRules rules(std::string_view model_type, std::string_view hf_class) {
  return decoder_rules(model_type, hf_class, read, write, block);
}

}  // namespace

const ArchitectureRules kLlama = rules("llama", "LlamaForCausalLM");
const ArchitectureRules kMistral = rules("mistral", "MistralForCausalLM");
const ArchitectureRules kQwen2 = rules("qwen2", "Qwen2ForCausalLM");
const ArchitectureRules kQwen3 = rules("qwen3", "Qwen3ForCausalLM");

}  // namespace strata
