// Low-rank adapters (LoRA, Hu et al. 2021): beside a product x · Wᵀ stands scale · x · Aᵀ · Bᵀ, whose A and B
// are parameters of the unit.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/unit_builder.h"

namespace strata {

/// By the unit's tensors, whether it is the weight of a linear layer that may have an adapter: experts and
/// their routers may not.
std::vector<bool> find_linear_weights(const UnitBuilder::Built& built);

/// The layer of a weight: its name without ".weight".
std::string layer_of(const std::string& weight);

/// The layer of a tensor that adapt() made.
std::string adapted_layer(const std::string& adapter);

/// Those layers with `is_adapted` get the tensors LAYER.lora_A.weight [rank, inputs] and LAYER.lora_B.weight
/// [outputs, rank] behind all others. With a probability of dropout A reads x without what is dropped, in
/// each layer something else. REQUIRES: find_linear_weights() has them.
UnitBuilder::Built adapt(UnitBuilder::Built built, const std::vector<bool>& is_adapted, std::int64_t rank,
                         double scale, double dropout = 0);

struct AdaptedLayer {
  const TensorSpec *weight, *down, *up;  ///< W, A and B
  WeightOrder order;                     ///< how W is stored
};

/// The unit's layers with adapters; `graph` is its kind's.
std::vector<AdaptedLayer> adapted_layers(const Unit& unit, const UnitGraph& graph);

}  // namespace strata
