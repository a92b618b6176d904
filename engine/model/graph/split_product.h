// A product for several projections as several products, for parts of a unit that are not treated alike.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "engine/model/graph/unit.h"

namespace strata {

/// Numbers [begin, end) of a unit's tensors.
struct CoveredTensors {
  std::size_t begin = 0, end = 0;
};

/// Those that a parameter of the unit's graph covers. REQUIRES: the unit has one flat parameter.
CoveredTensors covered_tensors(const Unit& unit, const Tensor& parameter);

/// Appends to `nodes` the products that stand in the place of a product (LinearRule, WeightOrder::linear).
/// Each is of a run of its projections that stay together. `stay(a, b)` says whether projection b stays with
/// a, the first of its run. Each product has a part of the weight and of the bias as tensors of its own,
/// which are added to the graph. REQUIRES: as covered_tensors().
void split_product(const Unit& unit, UnitGraph& graph, const Node& product,
                   const std::function<bool(std::size_t a, std::size_t b)>& stay, std::vector<Node>& nodes);

}  // namespace strata
