// A product for several projections as several products, for parts of a unit that are not treated alike.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "engine/graph/unit.h"

namespace strata {

/// Numbers [begin, end) of a unit's tensors.
struct CoveredTensors {
  std::size_t begin = 0, end = 0;
};

/// Those that a parameter of the unit's graph covers. REQUIRES: the unit has one flat parameter.
CoveredTensors covered_tensors(const Unit& unit, const Tensor& parameter);

/// Appends to `nodes` what stands in the place of a product (LinearRule, WeightOrder::linear): one for each
/// run of its projections of which each stays with the first. `stay(a, b)` says so of two of them, by
/// their numbers; each has a part of the weight and of the bias as tensors of its own, which the graph gets.
/// REQUIRES: as covered_tensors().
void split_product(const Unit& unit, UnitGraph& graph, const Node& product,
                   const std::function<bool(std::size_t a, std::size_t b)>& stay, std::vector<Node>& nodes);

}  // namespace strata
