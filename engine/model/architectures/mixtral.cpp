// Mixtral (transformers: MixtralForCausalLM): Llama's attention, and experts in place of the MLP.
// Not in a unity build: each architecture has its own read(), write() and block().
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {32000, 14336, 131072, 8, {}});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.window = reader.has("sliding_window") ? reader.integer("sliding_window", {}, 1, kLargestVocabulary) : 0;
  read_experts(reader, a, {.experts = 8, .per_token = 2});
  a.expert_intermediate = a.intermediate;
  read_balance(reader, a);
  if (reader.number("router_jitter_noise", 0.0) != 0)
    reader.refuse("router_jitter_noise", "strata adds no noise to routing; set it to 0");
  require_activation(reader, "hidden_act", "silu", "swish");
  a.padding_token = read_padding_token(reader, a);
  a.rope = read_rope(reader, a, where, /*theta=*/1e6);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config["sliding_window"] = a.window == 0 ? nlohmann::json() : nlohmann::json(a.window);
  config["num_local_experts"] = a.experts;
  config["num_experts_per_tok"] = a.experts_per_token;
  write_balance(config, a);
  return config;
}

TensorView experts(UnitBuilder& builder, const TensorView& x, const Architecture& a) {
  return builder.experts(x, {.experts = a.experts,
                             .top_k = a.experts_per_token,
                             .intermediate = a.expert_intermediate,
                             .router = "block_sparse_moe.gate",
                             .gate = "block_sparse_moe.experts.{}.w1",
                             .up = "block_sparse_moe.experts.{}.w3",
                             .down = "block_sparse_moe.experts.{}.w2",
                             .balance = balance_options(a)});
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  return pre_norm_block(
      a, layer,
      [&](UnitBuilder& builder, const TensorView& x) {
        return self_attention(builder, x, a, {attention_shape(a)});
      },
      [&](UnitBuilder& builder, const TensorView& x) { return experts(builder, x, a); });
}

}  // namespace

const ArchitectureRules kMixtral = decoder_rules("mixtral", "MixtralForCausalLM", read, write, block);

}  // namespace strata
