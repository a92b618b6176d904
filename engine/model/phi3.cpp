// Phi-3 (transformers: Phi3ForCausalLM): Llama's layer with one matrix for queries, keys and values, and one
// for gate and up.
#include "engine/model/architecture_rules.h"
#include "engine/model/config_reading.h"
#include "engine/model/decoder.h"

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
  a.padding_token = read_padding_token(reader, a, 32000);
  a.rope = read_rope(reader, a, where);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  return config;
}

NormOptions norm_options(const Architecture& a) {
  return {NormKind::rms_norm, a.norm_epsilon};
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  UnitBuilder builder = layer_block(layer);
  const TensorView input = builder.input(a.hidden);
  const TensorView qkv = builder.linear(builder.norm(input, "input_layernorm", norm_options(a)),
                                        {{"self_attn.qkv_proj", a.query_columns() + 2 * a.kv_columns()}});
  const TensorView attended = attend(builder, qkv, a, {attention_shape(a)});
  const TensorView mid = builder.add(input, builder.linear(attended, {{"self_attn.o_proj", a.hidden}}));
  const TensorView gate_up = builder.linear(builder.norm(mid, "post_attention_layernorm", norm_options(a)),
                                            {{"mlp.gate_up_proj", 2 * a.intermediate}});
  const TensorView activation = builder.activate_gate(gate_up, Activation::silu);
  builder.output(builder.add(mid, builder.linear(activation, {{"mlp.down_proj", a.hidden}})));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  return token_head(a, embedding, norm_options(a));
}

}  // namespace

const ArchitectureRules kPhi3 = {.model_type = "phi3",
                                 .hf_class = "Phi3ForCausalLM",
                                 .read = read,
                                 .write = write,
                                 .embedding = token_embedding,
                                 .block = block,
                                 .head = head,
                                 .rotations = one_rotation};

}  // namespace strata
