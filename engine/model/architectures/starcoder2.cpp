// StarCoder2 (transformers: Starcoder2ForCausalLM): Llama's attention with biases, between layer norms, and
// an MLP without a gate. Not in a unity build: each architecture has its own read(), write() and block().
#include "engine/device/activation.h"
#include "engine/device/norm_calls.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {49152, 12288, 4096, 2, {}, 30, 3072, 24});
  a.initializer_range = 0.018042;  // where the file has none
  a.norm_epsilon = positive(reader, "norm_epsilon", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", true);
  a.qkv_bias = a.out_bias = a.mlp_bias = reader.boolean("use_bias", true);
  a.window =
      reader.is_null("sliding_window") ? 0 : reader.integer("sliding_window", 0, 1, kLargestVocabulary);
  require_activation(reader, "hidden_act", "gelu_pytorch_tanh", "gelu_new");
  a.padding_token = read_padding_token(reader, a);
  a.rope = read_rope(reader, a, where);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config.erase("rms_norm_eps");
  config["norm_epsilon"] = a.norm_epsilon;
  config["hidden_act"] = "gelu_pytorch_tanh";
  config["use_bias"] = a.mlp_bias;
  config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  return config;
}

NormOptions norm_options(const Architecture& a) {
  return {NormKind::layer_norm, a.norm_epsilon};
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  UnitBuilder builder = layer_block(layer);
  const TensorView input = builder.input(hidden_axis(a));
  const TensorView attended = self_attention(builder, builder.norm(input, "input_layernorm", norm_options(a)),
                                             a, {attention_shape(a)});
  const TensorView mid = builder.add(input, builder.dropout(attended, a.residual_dropout));
  const LinearOptions product = {.bias = a.mlp_bias};
  const TensorView up = builder.linear(builder.norm(mid, "post_attention_layernorm", norm_options(a)),
                                       {{"mlp.c_fc", intermediate_axis(a)}}, product);
  const TensorView down =
      builder.linear(builder.activate(up, Activation::gelu_tanh), {{"mlp.c_proj", hidden_axis(a)}}, product);
  builder.output(builder.add(mid, builder.dropout(down, a.residual_dropout)));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  return token_head(a, embedding, norm_options(a));
}

constexpr ArchitectureRules rules() {
  ArchitectureRules rules = decoder_rules("starcoder2", "Starcoder2ForCausalLM", read, write, block);
  rules.head = head;
  return rules;
}

}  // namespace

const ArchitectureRules kStarcoder2 = rules();

}  // namespace strata
