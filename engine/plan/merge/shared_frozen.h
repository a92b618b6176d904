// Which frozen values several models have in common, so that a run holds them once: those of the same tensors
// from the same folder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/merge/model_to_plan.h"

namespace strata {

/// By model and unit: a number that the units of several models have whose frozen values begin as the same,
/// cut alike over the same mesh, or -1.
std::vector<std::vector<std::int32_t>> find_shared_frozen(std::span<const ModelToPlan> models);

}  // namespace strata
