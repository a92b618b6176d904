#include "engine/execute/unit_share.h"

#include <algorithm>

namespace strata {

std::vector<UnitShare> shares_of(const Model& model, const Mesh& mesh, std::int64_t rank) {
  std::vector<UnitShare> shares;
  for (const Unit& unit : model.units) {
    const FlatRange range = shard_of(unit, mesh, mesh.shard_rank(rank));
    shares.push_back({.kind = unit.kind, .first = range.first, .parts = {}});
    UnitShare& share = shares.back();
    std::vector<UpdatedPart>& parts = share.parts;
    for (const TensorPiece& piece : pieces_in(unit, range)) {
      if (piece.tensor->is_copy) share.counted = std::min(share.counted, piece.at);
      const std::size_t policy = piece.tensor->policy;
      if (!parts.empty() && parts.back().end() == piece.at && parts.back().policy == policy) {
        parts.back().count += piece.count();
      } else {
        parts.push_back({piece.at, piece.count(), policy});
      }
    }
  }
  return shares;
}

}  // namespace strata
