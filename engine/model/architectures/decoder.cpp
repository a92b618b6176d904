#include "engine/model/architectures/decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"

namespace strata {

Axis hidden_axis(const Architecture& a) {
  return {"hidden", a.hidden};
}

Axis query_axis(const Architecture& a) {
  return query_axis(a.heads, a.kv_heads, a.head_dimension);
}

Axis key_axis(const Architecture& a) {
  return key_axis(a.kv_heads, a.head_dimension);
}

Axis intermediate_axis(const Architecture& a) {
  return {"intermediate", a.intermediate};
}

Axis vocabulary_axis(const Architecture& a) {
  return {"vocabulary", a.vocabulary};
}

TensorView token_data(UnitBuilder& builder) {
  return builder.data(0, "tokens", TensorType::int32, {}, token_axis());
}

TensorView target_data(UnitBuilder& builder) {
  return builder.data(1, "targets", TensorType::int32, {}, token_axis());
}

UnitBuilder token_embedding(const Architecture& a) {
  UnitBuilder builder("embedding", "model.");
  if (a.balance_coefficient != 0) builder.begin_tally(a.experts);
  const TensorView embedded = builder.embedding(token_data(builder), "embed_tokens.weight",
                                                vocabulary_axis(a), hidden_axis(a), a.padding_token);
  builder.output(builder.scale(embedded, a.embedding_scale));
  return builder;
}

UnitBuilder token_head(const Architecture& a, const Unit& embedding, const NormOptions& options) {
  UnitBuilder builder("head", "");
  const TensorView input = builder.input(hidden_axis(a));
  TensorView penalty;
  if (a.balance_coefficient != 0) penalty = builder.balance_loss(a.experts, balance_options(a));
  finish_head(builder, builder.norm(input, "model.norm", options), a, embedding, penalty);
  return builder;
}

NormOptions rms_norm(const Architecture& a) {
  return {NormKind::rms_norm, a.norm_epsilon};
}

UnitBuilder rms_head(const Architecture& a, const Unit& embedding) {
  return token_head(a, embedding, rms_norm(a));
}

UnitBuilder layer_block(std::int64_t layer) {
  return {fmt::format("block.{}", layer), fmt::format("model.layers.{}.", layer)};
}

void finish_head(UnitBuilder& builder, const TensorView& normalised, const Architecture& a,
                 const Unit& embedding, const TensorView& penalty) {
  const TensorView product = a.tied_head ? builder.shared_linear(normalised, vocabulary_axis(a), embedding, 0)
                                         : builder.linear(normalised, {{"lm_head", vocabulary_axis(a)}});
  builder.take_in_chunks(product);
  const TensorView logits = builder.scale(product, 1 / a.logits_divisor);
  builder.take_in_chunks(logits);
  builder.cross_entropy(logits, target_data(builder), a.logits_cap, penalty);
}

BalanceOptions balance_options(const Architecture& a) {
  return {a.balance_coefficient, a.expert_layers()};
}

AttentionShape attention_shape(const Architecture& a) {
  AttentionShape attention;
  attention.heads = a.heads;
  attention.kv_heads = a.kv_heads;
  attention.head_dimension = a.head_dimension;
  attention.window = a.window;
  attention.scale = static_cast<float>(
      a.query_scale != 0 ? a.query_scale : 1 / std::sqrt(static_cast<double>(a.head_dimension)));
  attention.soft_cap = static_cast<float>(a.scores_cap);
  return attention;
}

TensorView attend(UnitBuilder& builder, const TensorView& qkv, const Architecture& a,
                  const AttentionOptions& options) {
  const std::int64_t query = a.query_columns(), key = a.kv_columns();
  TensorView rotated = builder.columns(qkv, 0, query + key);
  const Rotation rotation = rules_of(a).rotations(a).at(static_cast<std::size_t>(options.rotation));
  if (options.head_norm) {
    rotated = builder.head_norm(rotated, "self_attn.q_norm", "self_attn.k_norm", a.heads, a.head_dimension,
                                *options.head_norm, options.rotation);
  } else {
    builder.rope(rotated, a.head_dimension, options.rotation, rotated_columns(rotation));
  }
  return builder.attention(builder.columns(rotated, 0, query), builder.columns(rotated, query, key),
                           builder.columns(qkv, query + key, key), options.shape);
}

TensorView self_attention(UnitBuilder& builder, const TensorView& x, const Architecture& a,
                          const AttentionOptions& options) {
  const TensorView qkv = builder.linear(x,
                                        {{"self_attn.q_proj", query_axis(a)},
                                         {"self_attn.k_proj", key_axis(a)},
                                         {"self_attn.v_proj", key_axis(a)}},
                                        {.bias = a.qkv_bias});
  return builder.linear(attend(builder, qkv, a, options), {{"self_attn.o_proj", hidden_axis(a)}},
                        {.bias = a.out_bias});
}

TensorView gated_mlp(UnitBuilder& builder, const TensorView& x, const Architecture& a,
                     Activation activation) {
  const TensorView gate_up =
      builder.linear(x, {{"mlp.gate_proj", intermediate_axis(a)}, {"mlp.up_proj", intermediate_axis(a)}},
                     {.bias = a.mlp_bias});
  return builder.linear(builder.activate_gate(gate_up, activation), {{"mlp.down_proj", hidden_axis(a)}},
                        {.bias = a.mlp_bias});
}

UnitBuilder pre_norm_block(const Architecture& a, std::int64_t layer, const Branch& attention,
                           const Branch& mlp) {
  UnitBuilder builder = layer_block(layer);
  const TensorView input = builder.input(hidden_axis(a));
  const TensorView attended = attention(builder, builder.norm(input, "input_layernorm", rms_norm(a)));
  const auto scaled = [&](const TensorView& branch) {
    return builder.scale(builder.dropout(branch, a.residual_dropout), a.residual_scale);
  };
  const TensorView mid = builder.add(input, scaled(attended));
  const TensorView branch = mlp(builder, builder.norm(mid, "post_attention_layernorm", rms_norm(a)));
  builder.output(builder.add(mid, scaled(branch)));
  return builder;
}

std::vector<Rotation> one_rotation(const Architecture& a) {
  return {{a.head_dimension, a.rope}};
}

}  // namespace strata
