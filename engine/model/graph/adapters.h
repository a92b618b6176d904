// Low-rank adapters (LoRA, Hu et al. 2021): beside a product x · Wᵀ stands scale · x · Aᵀ · Bᵀ, whose A and B
// are parameters of the unit. With magnitudes (DoRA, Liu et al. 2024) the sum of both is multiplied by m / ‖W
// + scale · B · A‖, of a row each, where m is a parameter, too; a bias is added behind that.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/graph/unit_builder.h"

namespace strata {

/// By the unit's tensors, whether it is the weight of a linear layer that may have an adapter: experts and
/// their routers may not.
std::vector<bool> find_linear_weights(const UnitBuilder::Built& built);

/// The layer of a weight: its name without ".weight".
std::string layer_of(const std::string& weight);

/// The layer of a tensor that adapt() made.
std::string adapted_layer(const std::string& adapter);

/// The unit's tensor that one which adapt() made stands beside.
const TensorSpec& adapted_weight(const Unit& unit, const TensorSpec& adapter);

/// A and B of one layer.
struct LowRankForm {
  std::int64_t rank = 1;
  double scale = 1;
  auto operator<=>(const LowRankForm&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// What all adapters of a unit have in common.
struct AdapterForm {
  double dropout = 0;  ///< the probability of being dropped, for what A reads
  bool has_magnitudes = false;
};

/// `low_ranks` has an entry for each of the unit's tensors. Each layer whose weight has a LowRankForm gets
/// the tensors LAYER.lora_A.weight [rank, inputs] and LAYER.lora_B.weight [outputs, rank] behind all others,
/// and with magnitudes LAYER.lora_magnitude_vector [outputs]. If only some projections of a product have
/// magnitudes, the product becomes several products. With dropout, A reads x without the dropped elements,
/// and each layer drops others. REQUIRES: find_linear_weights() has those weights.
UnitBuilder::Built adapt(UnitBuilder::Built built, const std::vector<std::optional<LowRankForm>>& low_ranks,
                         const AdapterForm& form);

struct AdaptedLayer {
  const TensorSpec *weight, *down, *up;   ///< W, A and B
  const TensorSpec* magnitude = nullptr;  ///< m; null: none
  WeightOrder order;                      ///< how W is stored
};

/// The unit's layers with adapters; `graph` is its kind's.
std::vector<AdaptedLayer> adapted_layers(const Unit& unit, const UnitGraph& graph);

}  // namespace strata
