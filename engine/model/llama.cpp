// Llama and its relatives Mistral, Qwen2 and Qwen3 (transformers: LlamaForCausalLM, …).
#include <fmt/format.h>

#include "engine/model/families.h"

namespace strata {
namespace {

NormOptions norm_options(const Architecture& a) {
  return {NormKind::rms_norm, a.norm_epsilon};
}

UnitBuilder embedding(const Architecture& a) {
  UnitBuilder builder("embedding", "model.");
  builder.output(builder.embedding("embed_tokens.weight", a.vocabulary, a.hidden, a.padding_token));
  return builder;
}

TensorView attention(UnitBuilder& builder, const TensorView& normalised, const Architecture& a) {
  const std::int64_t query = a.query_columns(), key = a.kv_columns();
  const TensorView qkv = builder.linear(
      normalised, {{"self_attn.q_proj", query}, {"self_attn.k_proj", key}, {"self_attn.v_proj", key}},
      {.bias = a.qkv_bias});
  TensorView rotated = builder.columns(qkv, 0, query + key);
  if (a.qk_norm) {
    rotated = builder.head_norm(rotated, "self_attn.q_norm", "self_attn.k_norm", a.heads, a.head_dimension,
                                norm_options(a));
  }
  builder.rope(rotated, a.head_dimension, 0);
  const TensorView attended =
      builder.attention(builder.columns(rotated, 0, query), builder.columns(rotated, query, key),
                        builder.columns(qkv, query + key, key), attention_shape(a));
  return builder.linear(attended, {{"self_attn.o_proj", a.hidden}});
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  UnitBuilder builder(fmt::format("block.{}", layer), fmt::format("model.layers.{}.", layer));
  const TensorView input = builder.input(a.hidden);
  const TensorView normalised = builder.norm(input, "input_layernorm", norm_options(a));
  const TensorView mid = builder.add(input, attention(builder, normalised, a));
  const TensorView gate_up =
      builder.linear(builder.norm(mid, "post_attention_layernorm", norm_options(a)),
                     {{"mlp.gate_proj", a.intermediate}, {"mlp.up_proj", a.intermediate}});
  builder.output(builder.add(
      mid, builder.linear(builder.activate_gate(gate_up, Activation::silu), {{"mlp.down_proj", a.hidden}})));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  UnitBuilder builder("head", "");
  const TensorView input = builder.input(a.hidden);
  finish_head(builder, builder.norm(input, "model.norm", norm_options(a)), a, embedding);
  return builder;
}

}  // namespace

UnitBuilders llama_units() {
  return {embedding, block, head};
}

}  // namespace strata
