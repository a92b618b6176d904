// Parts that several decoders have in common, as UnitBuilder writes them down.
#pragma once

#include <optional>

#include "engine/graph/unit_builder.h"
#include "engine/model/architecture.h"
#include "engine/model/rotary.h"

namespace strata {

/// embed_tokens, times the architecture's factor.
UnitBuilder token_embedding(const Architecture& architecture);
/// model.norm, then finish_head().
UnitBuilder token_head(const Architecture& architecture, const Unit& embedding, const NormOptions& options);
/// block.N, whose tensors are model.layers.N.…
UnitBuilder layer_block(std::int64_t layer);

/// Final norm done: logits in chunks of rows, by the embedding's table if the head is tied, and the loss.
void finish_head(UnitBuilder& builder, const TensorView& normalised, const Architecture& architecture,
                 const Unit& embedding);

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

std::vector<Rotation> one_rotation(const Architecture& architecture);

}  // namespace strata
