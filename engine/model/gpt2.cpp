// GPT-2 (transformers: GPT2LMHeadModel). HF's Conv1D stores its matrices as [in, out]; q, k and v are the
// columns of c_attn.
#include <fmt/format.h>

#include "engine/model/families.h"

namespace strata {
namespace {

UnitBuilder embedding(const Architecture& a) {
  UnitBuilder builder("embedding", "transformer.");
  builder.output(builder.embedding("wte.weight", "wpe.weight", a.vocabulary, a.max_positions, a.hidden));
  return builder;
}

NormOptions norm_options(const Architecture& a) {
  return {NormKind::layer_norm, a.norm_epsilon};
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  constexpr LinearOptions kProduct = {WeightOrder::conv1d, Init::normal, /*bias=*/true};
  constexpr LinearOptions kBranch = {WeightOrder::conv1d, Init::residual_normal, /*bias=*/true};
  UnitBuilder builder(fmt::format("block.{}", layer), fmt::format("transformer.h.{}.", layer));
  const TensorView input = builder.input(a.hidden);
  const TensorView normalised = builder.norm(input, "ln_1", norm_options(a));
  const TensorView qkv = builder.linear(normalised, {{"attn.c_attn", 3 * a.hidden}}, kProduct);
  const auto part = [&](std::int64_t number) { return builder.columns(qkv, number * a.hidden, a.hidden); };
  const TensorView attention = builder.attention(part(0), part(1), part(2), attention_shape(a));
  const TensorView mid = builder.add(input, builder.linear(attention, {{"attn.c_proj", a.hidden}}, kBranch));
  const TensorView up =
      builder.linear(builder.norm(mid, "ln_2", norm_options(a)), {{"mlp.c_fc", a.intermediate}}, kProduct);
  builder.output(builder.add(
      mid, builder.linear(builder.activate(up, Activation::gelu_tanh), {{"mlp.c_proj", a.hidden}}, kBranch)));
  return builder;
}

UnitBuilder head(const Architecture& a, const Unit& embedding) {
  UnitBuilder builder("head", "");
  const TensorView input = builder.input(a.hidden);
  finish_head(builder, builder.norm(input, "transformer.ln_f", norm_options(a)), a, embedding);
  return builder;
}

}  // namespace

UnitBuilders gpt2_units() {
  return {embedding, block, head};
}

}  // namespace strata
