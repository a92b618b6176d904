// Which ranks of a run of several models have one program: those that have the same stage of each model. Each
// model has a mesh of its own over the same ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/lower/strategy.h"

namespace strata {

struct StageSet {
  std::int64_t rank = 0;             ///< the first that has it
  std::vector<std::int32_t> stages;  ///< by model
};

/// In the order of their first ranks. Throws ConfigError if these do not stand for all: if ranks that meet
/// have stage sets whose first ranks do not. REQUIRES: all meshes have as many ranks.
std::vector<StageSet> stage_sets_of(std::span<const Mesh> meshes);

/// The number of a rank's.
std::size_t stage_set_of(std::int64_t rank, std::span<const Mesh> meshes,
                         std::span<const StageSet> stage_sets);

}  // namespace strata
