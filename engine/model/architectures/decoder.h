// Parts that several decoders have in common, as UnitBuilder writes them down.
#pragma once

#include <functional>
#include <optional>

#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/model/architectures/architecture_rules.h"

namespace strata {

// The axes that architectures name.
Axis hidden_axis(const Architecture& architecture);
Axis query_axis(const Architecture& architecture);
Axis key_axis(const Architecture& architecture);
Axis intermediate_axis(const Architecture& architecture);
Axis vocabulary_axis(const Architecture& architecture);

/// What text brings: tokens are data array 0, the tokens that follow them array 1.
TensorView token_data(UnitBuilder& builder);
TensorView target_data(UnitBuilder& builder);

/// embed_tokens, times the architecture's factor; where a microbatch's tally begins, if it has one.
UnitBuilder token_embedding(const Architecture& architecture);
/// model.norm, then finish_head().
UnitBuilder token_head(const Architecture& architecture, const Unit& embedding, const NormOptions& options);
/// RMS norms with the architecture's epsilon.
NormOptions rms_norm(const Architecture& architecture);
UnitBuilder rms_head(const Architecture& architecture, const Unit& embedding);

/// block.N, whose tensors are model.layers.N.…
UnitBuilder layer_block(std::int64_t layer);

/// Final norm done: logits in chunks of rows, by the embedding's table if the head is tied, and the loss; a
/// penalty joins that of each token.
void finish_head(UnitBuilder& builder, const TensorView& normalised, const Architecture& architecture,
                 const Unit& embedding, const TensorView& penalty = {});

/// Options of the auxiliary loss of routing.
BalanceOptions balance_options(const Architecture& architecture);

/// Causal self-attention with the architecture's heads and window.
AttentionShape attention_shape(const Architecture& architecture);

struct AttentionOptions {
  AttentionShape shape;
  std::int64_t rotation = 0;                  ///< number of the tables
  std::optional<NormOptions> head_norm = {};  ///< of queries and keys, before they are rotated
};

/// Queries, keys and values side by side → what the heads have attended to.
TensorView attend(UnitBuilder& builder, const TensorView& qkv, const Architecture& architecture,
                  const AttentionOptions& options);
/// q_proj, k_proj, v_proj, attend(), o_proj.
TensorView self_attention(UnitBuilder& builder, const TensorView& x, const Architecture& architecture,
                          const AttentionOptions& options);
/// gate_proj, up_proj, down_proj.
TensorView gated_mlp(UnitBuilder& builder, const TensorView& x, const Architecture& architecture,
                     Activation activation);

using Branch = std::function<TensorView(UnitBuilder& builder, const TensorView& x)>;

/// Llama's layer: x + attention(norm(x)), then + mlp(norm(·)), each branch times the residual factor and with
/// the architecture's dropout.
UnitBuilder pre_norm_block(const Architecture& architecture, std::int64_t layer, const Branch& attention,
                           const Branch& mlp);

std::vector<Rotation> one_rotation(const Architecture& architecture);

/// The rules of a decoder that differs from Llama in its file and its layers.
constexpr ArchitectureRules decoder_rules(std::string_view model_type, std::string_view hf_class,
                                          decltype(ArchitectureRules::read) read,
                                          decltype(ArchitectureRules::write) write,
                                          decltype(ArchitectureRules::block) block) {
  return {.model_type = model_type,
          .hf_class = hf_class,
          .read = read,
          .write = write,
          .embedding = token_embedding,
          .block = block,
          .head = rms_head,
          .rotations = one_rotation};
}

}  // namespace strata
