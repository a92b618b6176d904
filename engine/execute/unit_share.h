// What programs leave open, since they are the same on every rank: which part of each unit this rank updates.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/lower/strategy.h"

namespace strata {

/// Elements of this rank's shard that belong to one tensor.
struct UpdatedPart {
  std::int64_t at = 0, count = 0;
  bool decays = false;  ///< its weights do, and not only if all do
};

struct UnitShare {
  std::size_t kind = 0;    ///< the unit's
  std::int64_t first = 0;  ///< the shard's first element, counted in the unit
  /// Elements in front of those that other ranks have, too, which count in the gradient's norm for one rank.
  std::int64_t counted = INT64_MAX;
  std::vector<UpdatedPart> parts;
};

/// By unit.
std::vector<UnitShare> shares_of(const Model& model, const Mesh& mesh, std::int64_t rank);

}  // namespace strata
