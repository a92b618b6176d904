// Freezing: tensors that are not trained move to a flat parameter of their own, which has no gradient.
#pragma once

#include <vector>

#include "engine/model/graph/unit_builder.h"

namespace strata {

/// `frozen` and `order` have one entry for each of the unit's tensors; order sorts the trained ones, as in
/// move_tensors(). If only some projections of a product are frozen,
/// the product becomes several products. Throws ConfigError that names two tensors which cannot be apart:
/// experts of one layer.
UnitBuilder::Built freeze(UnitBuilder::Built built, const std::vector<bool>& frozen,
                          const std::vector<int>& order);

}  // namespace strata
