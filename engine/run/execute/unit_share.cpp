#include "engine/run/execute/unit_share.h"

#include <algorithm>
#include <utility>

#include "engine/model/kept_state.h"
#include "engine/model/model.h"

namespace strata {

namespace {

std::vector<Stretch> counted_in(const std::vector<TensorPiece>& pieces) {
  std::vector<Stretch> counted;
  std::int64_t begin = 0;
  bool is_behind_copies = false;
  for (const TensorPiece& piece : pieces) {
    if (piece.tensor->is_copy) {
      if (!is_behind_copies && piece.at > begin) counted.push_back({begin, piece.at - begin});
      is_behind_copies = true;
    } else if (std::exchange(is_behind_copies, false)) {
      begin = piece.at;
    }
  }
  if (!is_behind_copies) counted.push_back({begin, INT64_MAX - begin});
  return counted;
}

/// What is no matrix counts as the first shard's.
void share_out_matrices(const Mesh& mesh, std::int64_t rank, std::int64_t elements, UnitShare& share) {
  const std::vector<UpdatedMatrix> all = std::exchange(share.matrices, {});
  const std::vector<std::int64_t> ranks = directing_ranks(all, mesh.shard);
  const std::int64_t own = mesh.shard_rank(rank);
  std::vector<Stretch>& of_others = share.of_others.emplace();
  std::int64_t begin = 0;
  const auto add = [&](std::int64_t owner, std::int64_t end) {
    if (owner != own && end > begin) of_others.push_back({begin, end - begin});
    begin = end;
  };
  for (std::size_t m = 0; m < all.size(); ++m) {
    add(0, all[m].offset);
    add(ranks[m], all[m].offset + all[m].own_elements());
    if (ranks[m] == own) share.matrices.push_back(all[m]);
  }
  add(0, mesh.gathered_elements(elements));
}

}  // namespace

std::vector<UnitShare> shares_of(const Model& model, const Strategy& strategy, std::int64_t rank) {
  const Mesh& mesh = strategy.mesh;
  std::vector<UnitShare> shares;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    const FlatRange range = shard_of(unit, mesh, mesh.shard_rank(rank));
    const std::vector<TensorPiece> pieces = pieces_in(unit, range);
    shares.push_back({.kind = unit.kind,
                      .number = static_cast<std::uint32_t>(u),
                      .first = range.first,
                      .counted = counted_in(pieces),
                      .parts = {},
                      .matrices = updated_matrices(model, unit),
                      .tensor_rank = mesh.tensor_rank(rank),
                      .tensor_ranks = mesh.tensor});
    UnitShare& share = shares.back();
    if (strategy.shares_out_matrices) share_out_matrices(mesh, rank, unit.elements, share);
    for (const Moment moment : kMoments) {
      const FlatRange kept = kept_part(model, unit, key_of(moment), range);
      share.kept[moment] = {kept.first - range.first, kept.count};
    }
    if (strategy.packed.has(Flat::trained) || strategy.packed.has(Flat::frozen)) {
      share.trained = packing_of(model, strategy, u, Flat::trained);
      share.frozen = packing_of(model, strategy, u, Flat::frozen);
      share.shard = static_cast<std::size_t>(mesh.shard_rank(rank));
    }
    if (unit.sparse_row > 0) {
      const TensorSpec& table = unit.tensors.front();
      share.rows = table.is_split() ? table.rows.front() : Stretch{0, table.hf_shape.front()};
    }
    std::vector<UpdatedPart>& parts = share.parts;
    for (const TensorPiece& piece : pieces) {
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
