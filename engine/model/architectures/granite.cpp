// Granite (transformers: GraniteForCausalLM): Llama's layer with factors on embeddings, scores, residual
// branches and logits.
// Not in a unity build: each architecture has its own read(), write() and block().
#include "engine/device/activation.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {32000, 11008, 2048, {}, {}});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-6);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.qkv_bias = a.out_bias = reader.boolean("attention_bias", false);
  a.mlp_bias = reader.boolean("mlp_bias", false);
  a.embedding_scale = positive(reader, "embedding_multiplier", 1.0);
  a.query_scale = positive(reader, "attention_multiplier", 1.0);
  a.residual_scale = positive(reader, "residual_multiplier", 1.0);
  a.logits_divisor = positive(reader, "logits_scaling", 1.0);
  require_activation(reader, "hidden_act", "silu", "swish");
  a.padding_token = read_padding_token(reader, a);
  a.rope = read_rope(reader, a, where);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config["attention_bias"] = a.qkv_bias;
  config["mlp_bias"] = a.mlp_bias;
  config["embedding_multiplier"] = a.embedding_scale;
  config["attention_multiplier"] = a.query_scale;
  config["residual_multiplier"] = a.residual_scale;
  config["logits_scaling"] = a.logits_divisor;
  return config;
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  return pre_norm_block(
      a, layer,
      [&](UnitBuilder& builder, const TensorView& x) {
        return self_attention(builder, x, a, {attention_shape(a)});
      },
      [&](UnitBuilder& builder, const TensorView& x) { return gated_mlp(builder, x, a, Activation::silu); });
}

}  // namespace

const ArchitectureRules kGranite = decoder_rules("granite", "GraniteForCausalLM", read, write, block);

}  // namespace strata
