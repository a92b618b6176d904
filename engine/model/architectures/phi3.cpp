// Phi-3 (transformers: Phi3ForCausalLM): Llama's layer with one matrix for queries, keys and values, and one
// for gate and up.
// Not in a unity build: each architecture has its own read(), write() and block().
#include <utility>

#include "engine/device/activation.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {32064, 8192, 4096, {}, {}, 32, 3072, 32});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.window = reader.has("sliding_window") ? reader.integer("sliding_window", {}, 1, kLargestVocabulary) : 0;
  require_activation(reader, "hidden_act", "silu", "swish");
  for (const char* unused : {"attention_bias", "embd_pdrop"}) reader.ignore(unused);
  // Phi-4-mini's files have keys that only code beside them reads, which transformers does not.
  for (const char* bias : {"mlp_bias", "lm_head_bias"}) require_plain(reader, bias, false);
  for (const char* factor : {"full_attn_mod", "interpolate_factor"})
    if (reader.number(factor, 1) != 1) reader.refuse(factor, "supported: 1");
  a.padding_token = read_padding_token(reader, a, 32000);
  a.rope = read_rope(reader, a, where);
}

/// transformers 4 takes three settings of longrope and no other. Writes these if they say all.
void write_long_rope(nlohmann::json& config, const Architecture& a) {
  const RopeOptions::LongRope& rope = *a.rope.long_rope;
  config["original_max_position_embeddings"] = rope.original_max_positions;
  nlohmann::json shorter = config;
  shorter["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", rope.short_factors}, {"long_factor", rope.long_factors}};
  JsonReader reader(shorter, "");
  if (read_rope(reader, a, "").long_rope == rope) config = std::move(shorter);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  if (a.rope.rotated_share != 1) config["partial_rotary_factor"] = a.rope.rotated_share;
  if (a.rope.long_rope) write_long_rope(config, a);
  config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  return config;
}

TensorView attention(UnitBuilder& builder, const TensorView& x, const Architecture& a) {
  const TensorView qkv =
      builder.linear(x, {{"self_attn.qkv_proj", query_axis(a) | key_axis(a) | key_axis(a)}});
  return builder.linear(attend(builder, qkv, a, {attention_shape(a)}),
                        {{"self_attn.o_proj", hidden_axis(a)}});
}

TensorView mlp(UnitBuilder& builder, const TensorView& x, const Architecture& a) {
  const TensorView gate_up =
      builder.linear(x, {{"mlp.gate_up_proj", intermediate_axis(a) | intermediate_axis(a)}});
  return builder.linear(builder.activate_gate(gate_up, Activation::silu),
                        {{"mlp.down_proj", hidden_axis(a)}});
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  return pre_norm_block(
      a, layer, [&](UnitBuilder& builder, const TensorView& x) { return attention(builder, x, a); },
      [&](UnitBuilder& builder, const TensorView& x) { return mlp(builder, x, a); });
}

}  // namespace

const ArchitectureRules kPhi3 = decoder_rules("phi3", "Phi3ForCausalLM", read, write, block);

}  // namespace strata
