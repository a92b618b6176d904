// GPT-2 (transformers: GPT2LMHeadModel). HF's Conv1D stores its matrices as [in, out]; q, k and v are the
// columns of c_attn.
// Not in a unity build: each architecture has its own read(), write() and block().
#include <fmt/format.h>

#include "engine/device/activation.h"
#include "engine/device/norm_calls.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {
namespace {

/// GPT-2's sizes go by the names n_embd, … or by HF's common ones.
std::int64_t gpt2_size(JsonReader& reader, const std::string& key, const std::string& common_key,
                       std::int64_t fallback, std::int64_t maximum) {
  return integer_by_either_name(reader, key, common_key, fallback, 1, maximum);
}

void read(JsonReader& reader, Architecture& a, const std::string&) {
  a.family = Family::gpt2;
  a.layers = gpt2_size(reader, "n_layer", "num_hidden_layers", 12, kLargestCount);
  a.hidden = gpt2_size(reader, "n_embd", "hidden_size", 768, kLargestWidth);
  a.heads = gpt2_size(reader, "n_head", "num_attention_heads", 12, kLargestWidth);
  a.max_positions = gpt2_size(reader, "n_positions", "max_position_embeddings", 1024, kLargestVocabulary);
  if (a.hidden % a.heads != 0) {
    reader.fail(fmt::format("n_embd {} is not a multiple of n_head {}", a.hidden, a.heads));
  }
  a.kv_heads = a.heads;
  a.head_dimension = a.hidden / a.heads;
  a.intermediate = reader.is_null("n_inner") ? 4 * a.hidden
                                             : reader.integer("n_inner", 4 * a.hidden, 1, 4 * kLargestWidth);
  a.vocabulary = reader.integer("vocab_size", 50257, 1, kLargestVocabulary);
  a.norm_epsilon = positive(reader, "layer_norm_epsilon", 1e-5);
  a.tied_head = reader.boolean("tie_word_embeddings", true);
  require_activation(reader, "activation_function", "gelu_new", "gelu_pytorch_tanh");
  require_plain(reader, "scale_attn_weights", true);
  require_plain(reader, "scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn reorders the same computation, but in another precision than ours.
  require_plain(reader, "reorder_and_upcast_attn", false);
}

nlohmann::json write(const Architecture& a) {
  return {{"n_layer", a.layers},
          {"n_embd", a.hidden},
          {"n_head", a.heads},
          {"n_inner", a.intermediate},
          {"n_positions", a.max_positions},
          {"layer_norm_epsilon", a.norm_epsilon},
          {"activation_function", "gelu_new"},
          // HF's default is 0.1. What of a run drops elements is no matter of its model.
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

UnitBuilder embedding(const Architecture& a) {
  UnitBuilder builder("embedding", "transformer.");
  const TensorView embedded =
      builder.embedding(token_data(builder), "wte.weight", "wpe.weight", vocabulary_axis(a),
                        {"learned_positions", a.max_positions}, hidden_axis(a));
  builder.output(builder.dropout(embedded, a.embedding_dropout));
  return builder;
}

NormOptions norm_options(const Architecture& a) {
  return {NormKind::layer_norm, a.norm_epsilon};
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  constexpr LinearOptions kProduct = {WeightOrder::conv1d, Init::normal, /*bias=*/true};
  constexpr LinearOptions kBranch = {WeightOrder::conv1d, Init::residual_normal, /*bias=*/true};
  UnitBuilder builder(fmt::format("block.{}", layer), fmt::format("transformer.h.{}.", layer));
  const TensorView input = builder.input(hidden_axis(a));
  const TensorView normalised = builder.norm(input, "ln_1", norm_options(a));
  const TensorView qkv =
      builder.linear(normalised, {{"attn.c_attn", query_axis(a) | key_axis(a) | key_axis(a)}}, kProduct);
  const auto part = [&](std::int64_t number) { return builder.columns(qkv, number * a.hidden, a.hidden); };
  const TensorView attention = builder.attention(part(0), part(1), part(2), attention_shape(a));
  const auto branch = [&](const TensorView& x, const char* name) {
    return builder.dropout(builder.linear(x, {{name, hidden_axis(a)}}, kBranch), a.residual_dropout);
  };
  const TensorView mid = builder.add(input, branch(attention, "attn.c_proj"));
  const TensorView up = builder.linear(builder.norm(mid, "ln_2", norm_options(a)),
                                       {{"mlp.c_fc", intermediate_axis(a)}}, kProduct);
  builder.output(builder.add(mid, branch(builder.activate(up, Activation::gelu_tanh), "mlp.c_proj")));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  UnitBuilder builder("head", "");
  const TensorView input = builder.input(hidden_axis(a));
  finish_head(builder, builder.norm(input, "transformer.ln_f", norm_options(a)), a, embedding);
  return builder;
}

}  // namespace

const ArchitectureRules kGpt2 = {.model_type = "gpt2",
                                 .hf_class = "GPT2LMHeadModel",
                                 .read = read,
                                 .write = write,
                                 .embedding = embedding,
                                 .block = block,
                                 .head = head};

}  // namespace strata
