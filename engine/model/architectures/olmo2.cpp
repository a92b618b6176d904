// OLMo 2 (transformers: Olmo2ForCausalLM): norms behind attention and MLP instead of before them, and norms
// of all queries and of all keys together.
// Not in a unity build: each architecture has its own read(), write() and block().
#include "engine/device/activation.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {50304, 11008, 2048, {}, {}});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.qkv_bias = a.out_bias = reader.boolean("attention_bias", false);
  require_activation(reader, "hidden_act", "silu", "swish");
  a.padding_token = read_padding_token(reader, a, 1);
  a.rope = read_rope(reader, a, where);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config["attention_bias"] = a.qkv_bias;
  return config;
}

TensorView attention(UnitBuilder& builder, const TensorView& x, const Architecture& a) {
  const std::int64_t query = a.query_columns(), key = a.kv_columns();
  const TensorView qkv = builder.linear(x,
                                        {{"self_attn.q_proj", query_axis(a)},
                                         {"self_attn.k_proj", key_axis(a)},
                                         {"self_attn.v_proj", key_axis(a)}},
                                        {.bias = a.qkv_bias});
  const TensorView queries = builder.norm(builder.columns(qkv, 0, query), "self_attn.q_norm", rms_norm(a));
  const TensorView keys = builder.norm(builder.columns(qkv, query, key), "self_attn.k_norm", rms_norm(a));
  builder.rope(queries, a.head_dimension, 0, a.head_dimension);
  builder.rope(keys, a.head_dimension, 0, a.head_dimension);
  const TensorView attended =
      builder.attention(queries, keys, builder.columns(qkv, query + key, key), attention_shape(a));
  return builder.linear(attended, {{"self_attn.o_proj", hidden_axis(a)}}, {.bias = a.out_bias});
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  UnitBuilder builder = layer_block(layer);
  const TensorView input = builder.input(hidden_axis(a));
  const TensorView mid =
      builder.add(input, builder.norm(attention(builder, input, a), "post_attention_layernorm", rms_norm(a)));
  const TensorView branch = gated_mlp(builder, mid, a, Activation::silu);
  builder.output(builder.add(mid, builder.norm(branch, "post_feedforward_layernorm", rms_norm(a))));
  return builder;
}

}  // namespace

const ArchitectureRules kOlmo2 = decoder_rules("olmo2", "Olmo2ForCausalLM", read, write, block);

}  // namespace strata
