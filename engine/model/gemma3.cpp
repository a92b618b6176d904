// Gemma 3, text (transformers: Gemma3ForCausalLM): norms on both sides of attention and MLP, whose factor is
// 1 + weight; layers that slide and layers that see all, with rotations of their own.
#include <cmath>

#include "engine/model/architecture_rules.h"
#include "engine/model/config_reading.h"
#include "engine/model/decoder.h"

namespace strata {
namespace {

/// The settings of one kind of layers.
RopeOptions read_settings(const nlohmann::json& object, const std::string& where, double theta) {
  JsonReader settings(object, where);
  RopeOptions rope{.theta = positive(settings, "rope_theta", theta)};
  const std::string old_type = settings.text("type", settings.has("rope_type") ? "" : "default");
  const std::string type = settings.text("rope_type", old_type);
  if (!old_type.empty() && type != old_type)
    settings.refuse("type", "transformers goes by rope_type, \"" + type + "\" here; say there what is meant");
  if (type == "linear") {
    rope.linear_factor = positive(settings, "factor", {});
  } else if (type != "default") {
    settings.refuse(settings.has("rope_type") ? "rope_type" : "type", "supported: \"default\", \"linear\"");
  }
  settings.refuse_unknown_keys();
  return rope;
}

/// Files of transformers 5 have the settings of both kinds of layers; older ones say the theta of each, and a
/// scaling of the layers that see all. Where both stand, transformers puts the scaling over the settings.
void read_ropes(JsonReader& reader, Architecture& a, const std::string& where) {
  const double theta = positive(reader, "rope_theta", 1e6);
  const double sliding_theta = positive(reader, "rope_local_base_freq", 1e4);
  nlohmann::json full = {{"rope_type", "default"}}, sliding = full;
  bool takes_scaling = true;
  if (reader.has("rope_parameters")) {
    JsonReader kinds(reader.at("rope_parameters"), where + ": rope_parameters");
    takes_scaling = kinds.has("full_attention");
    if (takes_scaling) full = kinds.at("full_attention");
    if (kinds.has("sliding_attention")) sliding = kinds.at("sliding_attention");
    kinds.refuse_unknown_keys();
  }
  std::string source = ": rope_parameters: full_attention";
  if (reader.has("rope_scaling")) {
    if (!takes_scaling || !full.is_object() || !reader.at("rope_scaling").is_object())
      reader.refuse("rope_scaling", "expected an object, and one of full_attention in rope_parameters");
    full.update(reader.at("rope_scaling"));
    source = ": rope_scaling";
  }
  a.rope = read_settings(full, where + source, theta);
  a.sliding_rope = read_settings(sliding, where + ": rope_parameters: sliding_attention", sliding_theta);
}

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {262208, 9216, 131072, 4, 256, 26, 2304, 8});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-6);
  a.tied_head = reader.boolean("tie_word_embeddings", true);
  a.qkv_bias = a.out_bias = reader.boolean("attention_bias", false);
  a.qk_norm = true;
  a.query_scale = std::pow(reader.integer("query_pre_attn_scalar", 256, 1, kLargestWidth), -0.5);
  a.embedding_scale = std::sqrt(static_cast<double>(a.hidden));
  a.window = reader.integer("sliding_window", 4096, 1, kLargestVocabulary);
  a.slides = read_layer_types(reader, a, reader.integer("sliding_window_pattern", 6, 1, kLargestCount));
  require_activation(reader, "hidden_activation", "gelu_pytorch_tanh", "gelu_new");
  if (!reader.is_null("use_bidirectional_attention"))
    require_plain(reader, "use_bidirectional_attention", false);
  if (reader.has("final_logit_softcapping"))
    reader.refuse("final_logit_softcapping", "soft caps are not supported; set it to null if there is none");
  for (const char* unused : {"hidden_act", "attn_logit_softcapping", "_sliding_window_pattern"})
    reader.ignore(unused);
  a.padding_token = read_padding_token(reader, a, 0);
  read_ropes(reader, a, where);
}

nlohmann::json rope_config(const RopeOptions& rope) {
  if (rope.linear_factor == 1) return {{"rope_type", "default"}, {"rope_theta", rope.theta}};
  return {{"rope_type", "linear"}, {"rope_theta", rope.theta}, {"factor", rope.linear_factor}};
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  for (const char* of_llama : {"hidden_act", "rope_theta", "rope_scaling"}) config.erase(of_llama);
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = a.qkv_bias;
  config["query_pre_attn_scalar"] = std::llround(1 / (a.query_scale * a.query_scale));
  config["sliding_window"] = a.window;
  for (const bool slides : a.slides)
    config["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  config["rope_parameters"] = {{"full_attention", rope_config(a.rope)},
                               {"sliding_attention", rope_config(*a.sliding_rope)}};
  return config;
}

NormOptions norm_options(const Architecture& a) {
  return {NormKind::rms_norm, a.norm_epsilon, /*unit_offset=*/true};
}

std::int64_t kind_of_layer(const Architecture& a, std::int64_t layer) {
  return a.slides[static_cast<std::size_t>(layer)] ? 1 : 0;
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  UnitBuilder builder = layer_block(layer);
  AttentionOptions options = {attention_shape(a), kind_of_layer(a, layer), norm_options(a)};
  if (kind_of_layer(a, layer) == 0) options.shape.window = 0;
  const auto norm = [&](const TensorView& x, const char* name) {
    return builder.norm(x, name, norm_options(a));
  };
  const TensorView input = builder.input(a.hidden);
  const TensorView attended = self_attention(builder, norm(input, "input_layernorm"), a, options);
  const TensorView mid = builder.add(input, norm(attended, "post_attention_layernorm"));
  const TensorView branch =
      gated_mlp(builder, norm(mid, "pre_feedforward_layernorm"), a, Activation::gelu_tanh);
  builder.output(builder.add(mid, norm(branch, "post_feedforward_layernorm")));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  return token_head(a, embedding, norm_options(a));
}

std::vector<Rotation> rotations(const Architecture& a) {
  return {{a.head_dimension, a.rope}, {a.head_dimension, *a.sliding_rope}};
}

}  // namespace

const ArchitectureRules kGemma3 = {.model_type = "gemma3_text",
                                   .hf_class = "Gemma3ForCausalLM",
                                   .read = read,
                                   .write = write,
                                   .embedding = token_embedding,
                                   .block = block,
                                   .head = head,
                                   .kind_of_layer = kind_of_layer,
                                   .rotations = rotations};

}  // namespace strata
