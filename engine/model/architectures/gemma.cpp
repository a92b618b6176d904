#include "engine/model/architectures/gemma.h"

#include <cmath>

#include "base/nth.h"
#include "engine/device/activation.h"
#include "engine/device/norm_calls.h"

namespace strata {

double read_soft_cap(JsonReader& reader, const std::string& key, double fallback) {
  if (reader.is_null(key)) return 0;
  return reader.has(key) ? positive(reader, key, {}) : fallback;
}

nlohmann::json soft_cap_config(double cap) {
  return cap == 0 ? nlohmann::json() : nlohmann::json(cap);
}

void read_gemma(JsonReader& reader, Architecture& a, const GemmaDefaults& defaults) {
  a.family = Family::llama;
  read_sizes(reader, a, defaults.sizes);
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-6);
  a.tied_head = reader.boolean("tie_word_embeddings", true);
  a.qkv_bias = a.out_bias = reader.boolean("attention_bias", false);
  a.query_scale = std::pow(reader.integer("query_pre_attn_scalar", 256, 1, kLargestWidth), -0.5);
  a.embedding_scale = std::sqrt(static_cast<double>(a.hidden));
  a.window = reader.integer("sliding_window", 4096, 1, kLargestVocabulary);
  a.slides = read_layer_types(reader, a, defaults.sliding_pattern);
  a.logits_cap = read_soft_cap(reader, "final_logit_softcapping", defaults.logits_cap);
  require_activation(reader, "hidden_activation", "gelu_pytorch_tanh", "gelu_new");
  reader.ignore("hidden_act");  // in the hub's files, and of no effect
  if (!reader.is_null("use_bidirectional_attention"))
    require_plain(reader, "use_bidirectional_attention", false);
  a.padding_token = read_padding_token(reader, a, 0);
}

nlohmann::json gemma_config(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = a.qkv_bias;
  config["query_pre_attn_scalar"] = std::llround(1 / (a.query_scale * a.query_scale));
  config["sliding_window"] = a.window;
  for (const bool slides : a.slides)
    config["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  config["final_logit_softcapping"] = soft_cap_config(a.logits_cap);
  return config;
}

NormOptions gemma_norm(const Architecture& a) {
  return {NormKind::rms_norm, a.norm_epsilon, /*unit_offset=*/true};
}

std::int64_t gemma_kind_of_layer(const Architecture& a, std::int64_t layer) {
  return nth(a.slides, layer) ? 1 : 0;
}

UnitBuilder gemma_block(const Architecture& a, std::int64_t layer, AttentionOptions options) {
  UnitBuilder builder = layer_block(layer);
  if (gemma_kind_of_layer(a, layer) == 0) options.shape.window = 0;
  const auto norm = [&](const TensorView& x, const char* name) {
    return builder.norm(x, name, gemma_norm(a));
  };
  const TensorView input = builder.input(hidden_axis(a));
  const TensorView attended = self_attention(builder, norm(input, "input_layernorm"), a, options);
  const TensorView mid = builder.add(input, norm(attended, "post_attention_layernorm"));
  const TensorView branch =
      gated_mlp(builder, norm(mid, "pre_feedforward_layernorm"), a, Activation::gelu_tanh);
  builder.output(builder.add(mid, norm(branch, "post_feedforward_layernorm")));
  return builder;
}

UnitBuilder gemma_head(const Architecture& a, const Unit& embedding) {
  return token_head(a, embedding, gemma_norm(a));
}

}  // namespace strata
