#include "engine/plan/lower/strategy.h"

#include <algorithm>

#include "collectives/sent_bytes.h"
#include "engine/model/graph/data_array.h"
#include "engine/model/model.h"

namespace strata {

std::vector<RankGroup> groups_of(const Mesh& mesh) {
  if (mesh.ranks() == 1) return {};
  const auto group = [&](const char* name, std::int64_t ranks, std::int64_t stride) {
    return RankGroup{.name = name, .sets = mesh.ranks() / ranks, .ranks = ranks, .stride = stride};
  };
  const std::int64_t neighbour = mesh.holder_stride();
  std::vector<RankGroup> groups = {group("shard", mesh.shard, neighbour),
                                   group("replicate", mesh.replicate, mesh.shard * neighbour),
                                   group("world", mesh.ranks(), 1)};
  const bool shares_sequences = mesh.context > 1, shares_passes = mesh.tensor > 1 || shares_sequences;
  const bool shares_keys = mesh.key_copies > 1 && mesh.key_copies < mesh.tensor;
  if (mesh.pipeline > 1 || shares_passes) groups.push_back(group("pipeline", mesh.pipeline, mesh.tensor));
  if (shares_passes) groups.push_back(group("tensor", mesh.tensor, 1));
  if (shares_keys || shares_sequences) groups.push_back(group("keys", mesh.key_copies, 1));
  if (shares_sequences) groups.push_back(group("context", mesh.context, neighbour));
  return groups;
}

FlatRange shard_of(const Unit& unit, const Mesh& mesh, std::int64_t shard_rank, Flat flat) {
  const std::int64_t all = unit.elements_of(flat), elements = mesh.shard_elements(all);
  const std::int64_t first = std::min(shard_rank * elements, all);
  return {first, std::min(elements, all - first), flat};
}

std::vector<Piece> state_pieces(std::int64_t elements, const Strategy& strategy) {
  if (strategy.piece_bytes == kUnlimited) return {{}};
  const std::int64_t most = strategy.piece_bytes / size_of(DType::fp32);
  if (elements <= most) return {{}};
  const std::int64_t count = (elements + most - 1) / most;
  // Whole pages of the narrowest part, so that a part takes no more memory in pieces than in one.
  constexpr std::int64_t kPage = kBufferAlignment / 2;
  const std::int64_t size =
      align_up((elements + count - 1) / count, most % kPage == 0 ? kPage : Mesh::kShardAlignment);
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < elements; first += size)
    pieces.push_back({first, std::min(size, elements - first)});
  return pieces;
}

std::int64_t sent_rows(const Model& model, const Strategy& strategy, std::size_t u) {
  const Unit& unit = model.units[u];
  const std::int64_t ranks = strategy.mesh.reducing();
  const bool is_shared = std::ranges::any_of(
      model.units, [&](const Unit& other) { return other.shares == static_cast<std::int32_t>(u); });
  if (!strategy.sparse_gradients || unit.sparse_row == 0 || is_shared || ranks == 1) return 0;
  const Extent numbers = data_of(model.graphs)[unit.row_numbers].elements;
  const std::int64_t rows = strategy.microbatches * numbers.in(strategy.microbatch);
  const Bytes element = size_of(strategy.reduce_dtype);
  const Bytes row = unit.sparse_row * element + Bytes{sizeof(std::int32_t)};
  const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
  const Bytes sparse = sent_in_parts(rows * row, ranks);
  const Bytes dense =
      strategy.mesh.shard > 1 ? sent_in_parts(shard * element, ranks) : sent_in_sum(shard, element, ranks);
  // All ranks' rows lie beside the gradient that they are summed into. In the backward pass of a last unit
  // with weights of its own the parameter lies there. If the rows are no larger, no budget has to be larger.
  const bool have_room =
      strategy.mesh.shard > 1 || ranks * rows * row <= unit.elements * size_of(strategy.precision);
  return sparse < dense && have_room ? rows : 0;
}

Packing packing_of(const Model& model, const Strategy& strategy, std::size_t unit, Flat flat) {
  const bool is_trained = flat == Flat::trained;
  const bool stays = is_trained && !strategy.is_sharded() && strategy.state[unit] == Tier::device;
  if (!strategy.packed.has(flat) || stays) return {};
  const Unit& packed = model.units[unit];
  const std::int64_t elements = packed.elements_of(flat);
  // Every rank has all of what is frozen, unless ranks gather it.
  const PackingFormat format = {strategy.packed.format_of(flat), strategy.precision};
  if (!is_trained && !strategy.gathers()) return packing_of(model, packed, flat, format, elements, 1);
  return packing_of(model, packed, flat, format, strategy.mesh.shard_elements(elements), strategy.mesh.shard);
}

}  // namespace strata
