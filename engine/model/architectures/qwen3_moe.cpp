// Qwen3 MoE (transformers: Qwen3MoeForCausalLM): Qwen3's attention, and experts in place of some layers' MLP.
// Not in a unity build: each architecture has its own read(), write() and block().
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/nth.h"
#include "engine/device/activation.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

/// The layers whose MLP is experts: each `decoder_sparse_step`th but those that mlp_only_layers names, if
/// there are experts.
std::vector<bool> read_expert_layers(JsonReader& reader, const Architecture& a) {
  const std::int64_t step = reader.integer("decoder_sparse_step", 1, 1, kLargestCount);
  std::vector<bool> has_experts;
  for (std::int64_t layer = 1; layer <= a.layers; ++layer)
    has_experts.push_back(a.experts > 0 && layer % step == 0);
  if (!reader.has("mlp_only_layers")) return has_experts;
  const nlohmann::json& without = reader.at("mlp_only_layers");
  const auto is_layer = [&](const nlohmann::json& number) {
    return number.is_number_integer() && number >= 0 && number < a.layers;
  };
  if (!without.is_array() || !std::ranges::all_of(without, is_layer))
    reader.refuse("mlp_only_layers", fmt::format("expected a list of numbers from 0 to {}", a.layers - 1));
  for (const nlohmann::json& layer : without) has_experts[layer.get<std::size_t>()] = false;
  return has_experts;
}

void read_expert_options(JsonReader& reader, Architecture& a) {
  read_experts(reader, a, {.experts = 128, .per_token = 8, .fewest = 0});
  a.expert_intermediate = reader.integer("moe_intermediate_size", 768, 1, 4 * kLargestWidth);
  a.normalises_experts = reader.boolean("norm_topk_prob", false);
  a.has_experts = read_expert_layers(reader, a);
  if (std::ranges::none_of(a.has_experts, std::identity())) {  // what experts would be does not count
    a.experts = a.experts_per_token = a.expert_intermediate = 0;
    a.normalises_experts = false;
  }
  read_balance(reader, a);
}

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  a.family = Family::llama;
  read_sizes(reader, a, {151936, 6144, 32768, 4, {}, 24, 2048, 32});
  a.norm_epsilon = positive(reader, "rms_norm_eps", 1e-6);
  a.tied_head = reader.boolean("tie_word_embeddings", false);
  a.qkv_bias = a.out_bias = reader.boolean("attention_bias", false);
  a.qk_norm = true;
  const bool slides = reader.boolean("use_sliding_window", false);
  const bool has_window = !reader.is_null("sliding_window");
  const std::int64_t window = has_window ? reader.integer("sliding_window", 4096, 1, kLargestVocabulary) : 0;
  a.window = slides ? window : 0;
  // In the hub's files, and of no effect; the last three must at least say what is computed.
  reader.ignore("max_window_layers");
  require_plain(reader, "qkv_bias", false);
  require_plain(reader, "use_qk_norm", true);
  reader.integer("shared_expert_intermediate_size", 0, 0, 0);
  read_expert_options(reader, a);
  require_activation(reader, "hidden_act", "silu", "swish");
  a.padding_token = read_padding_token(reader, a);
  a.rope = read_rope(reader, a, where);
}

nlohmann::json write(const Architecture& a) {
  nlohmann::json config = llama_config(a);
  config["attention_bias"] = a.qkv_bias;
  config["use_sliding_window"] = a.window != 0;
  if (a.window != 0) config["sliding_window"] = a.window;
  config["num_experts"] = a.experts;
  if (a.experts == 0) return config;
  config["num_experts_per_tok"] = a.experts_per_token;
  config["moe_intermediate_size"] = a.expert_intermediate;
  config["norm_topk_prob"] = a.normalises_experts;
  write_balance(config, a);
  config["mlp_only_layers"] = nlohmann::json::array();
  for (std::size_t layer = 0; layer < a.has_experts.size(); ++layer)
    if (!a.has_experts[layer]) config["mlp_only_layers"].push_back(layer);
  return config;
}

std::int64_t kind_of_layer(const Architecture& a, std::int64_t layer) {
  return nth(a.has_experts, layer) ? 1 : 0;
}

TensorView mlp(UnitBuilder& builder, const TensorView& x, const Architecture& a, std::int64_t layer) {
  if (kind_of_layer(a, layer) == 0) return gated_mlp(builder, x, a, Activation::silu);
  return builder.experts(x, {.experts = a.experts,
                             .top_k = a.experts_per_token,
                             .intermediate = a.expert_intermediate,
                             .normalise = a.normalises_experts,
                             .router = "mlp.gate",
                             .gate = "mlp.experts.{}.gate_proj",
                             .up = "mlp.experts.{}.up_proj",
                             .down = "mlp.experts.{}.down_proj",
                             .balance = balance_options(a)});
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  const AttentionOptions options = {.shape = attention_shape(a), .head_norm = rms_norm(a)};
  return pre_norm_block(
      a, layer,
      [&](UnitBuilder& builder, const TensorView& x) { return self_attention(builder, x, a, options); },
      [&](UnitBuilder& builder, const TensorView& x) { return mlp(builder, x, a, layer); });
}

constexpr ArchitectureRules rules() {
  ArchitectureRules rules = decoder_rules("qwen3_moe", "Qwen3MoeForCausalLM", read, write, block);
  rules.kind_of_layer = kind_of_layer;
  return rules;
}

}  // namespace

const ArchitectureRules kQwen3Moe = rules();

}  // namespace strata
