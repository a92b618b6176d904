#include "engine/execute/unit_share.h"

#include <algorithm>

namespace strata {

std::vector<UnitShare> shares_of(const Model& model, const Mesh& mesh, std::int64_t rank) {
  std::vector<UnitShare> shares;
  for (const Unit& unit : model.units) {
    const FlatRange range = shard_of(unit, mesh, mesh.shard_rank(rank));
    UnitShare& share = shares.emplace_back(unit.kind, range.first);
    for (const TensorPiece& piece : pieces_in(unit, range))
      if (piece.tensor->is_copy) share.counted = std::min(share.counted, piece.at);
    for (const TensorPiece& piece : pieces_in(unit, range))
      share.parts.push_back({piece.at, piece.count(), piece.tensor->decay});
  }
  return shares;
}

}  // namespace strata
