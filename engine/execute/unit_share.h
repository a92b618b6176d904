// What programs leave open, since they are the same on every rank: which part of each unit this rank updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/lower/strategy.h"

namespace strata {

/// Elements of this rank's shard that are updated by one policy: tensors that lie one after another, or a
/// part of one.
struct UpdatedPart {
  std::int64_t at = 0, count = 0;
  std::size_t policy = 0;  ///< number of Model::policies

  std::int64_t end() const { return at + count; }
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
