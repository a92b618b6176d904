#include "engine/model/split_model.h"

namespace strata {

AxisSplit tensor_split(std::int64_t ranks, std::int64_t rank) {
  return {{"kv_heads", "intermediate"}, ranks, rank};
}

Model split_model(const Model& whole, const AxisSplit& split) {
  Model part = whole;
  if (split.ranks == 1) return part;
  part.computes = make_unit_computes();
  for (Unit& unit : part.units) {
    SplitUnit of_rank = split_unit(unit, whole.passes[unit.kind], split);
    part.passes[unit.kind] = std::move(of_rank.graph);
    unit = std::move(of_rank.unit);
  }
  return part;
}

}  // namespace strata
