// The families of models, each a function from sizes to units. Tensors' names are those of HF's checkpoints.
#pragma once

#include <cstdint>

#include "engine/graph/unit_builder.h"
#include "engine/model/architecture.h"

namespace strata {

/// What builds the units of a model, which stand in this order: the embedding, the blocks, the head.
struct UnitBuilders {
  UnitBuilder (*embedding)(const Architecture& architecture);
  UnitBuilder (*block)(const Architecture& architecture, std::int64_t layer);
  /// `embedding`: the unit whose table a tied head uses.
  UnitBuilder (*head)(const Architecture& architecture, const Unit& embedding);
};

UnitBuilders gpt2_units();
UnitBuilders llama_units();

/// Causal self-attention with the architecture's heads.
AttentionShape attention_shape(const Architecture& architecture);

/// Final norm done: logits in chunks of rows, by the embedding's table if the head is tied, and the loss.
void finish_head(UnitBuilder& builder, const TensorView& normalised, const Architecture& architecture,
                 const Unit& embedding);

}  // namespace strata
