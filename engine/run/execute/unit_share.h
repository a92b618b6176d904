// What programs leave open, since they are the same on every rank: which part of each unit this rank updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/enum_array.h"
#include "engine/model/graph/unit.h"
#include "engine/model/updated_matrices.h"
#include "engine/plan/lower/strategy.h"
#include "optim/update_rule.h"

namespace strata {

/// Elements of this rank's shard that are updated by one policy: tensors that lie one after another, or a
/// part of one.
struct UpdatedPart {
  std::int64_t at = 0, count = 0;
  std::size_t policy = 0;  ///< number of Model::policies

  std::int64_t end() const { return at + count; }
};

struct UnitShare {
  std::size_t kind = 0;      ///< the unit's
  std::uint32_t number = 0;  ///< of the unit in its model
  std::int64_t first = 0;    ///< the shard's first element, counted in the unit
  /// The shard's elements that count in the gradient's norm here: what several ranks have counts for one of
  /// them. Padding may be among them.
  std::vector<Stretch> counted;
  std::vector<UpdatedPart> parts;
  /// The shard's elements that each moment covers.
  EnumArray<Moment, Stretch> kept = {};
  std::vector<UpdatedMatrix> matrices = {};  ///< of the whole unit, whose directions this rank finds
  /// If ranks share out matrices, the elements of the whole unit whose directions others give.
  std::optional<std::vector<Stretch>> of_others = {};
  std::int64_t tensor_rank = 0, tensor_ranks = 1;  ///< this rank's number among those that share its passes
  /// Those rows that the rank has of a table whose gradient has values in few rows.
  Stretch rows = {};
  Packing trained = {}, frozen = {};  ///< how its parameters are packed, those of all holders
  std::size_t shard = 0;              ///< this rank's

  const Packing& packing(Flat flat) const { return flat == Flat::trained ? trained : frozen; }
  /// The part that this rank has of what is so packed. If there is but one, all ranks have it.
  std::size_t part_of(const Packing& packed) const { return packed.parts.size() == 1 ? 0 : shard; }
};

/// By unit.
std::vector<UnitShare> shares_of(const Model& model, const Strategy& strategy, std::int64_t rank);

}  // namespace strata
