// Which frozen values several models have in common, so that a run holds them once: those of the same tensors
// from the same folder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/lower/strategy.h"
#include "engine/plan/search/joint_model.h"

namespace strata {

/// By model and unit: a number that the units of several models have whose frozen values begin as the same,
/// cut alike over the same mesh, or -1. `meshes` are the models'.
std::vector<std::vector<std::int32_t>> find_shared_frozen(std::span<const JointModel> models,
                                                          std::span<const Mesh> meshes);

}  // namespace strata
