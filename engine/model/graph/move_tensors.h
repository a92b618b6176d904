// The order of a unit's tensors in its flat parameters, and the graph's operands in their new places.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/model/graph/unit_builder.h"

namespace strata {

/// Gives each of a unit's tensors a place in the flat parameter that `flat` says. Tensors that the graph
/// reads as one stay together, without gaps. In a flat parameter they stand by `order` of the first of them,
/// and else in their order. Sizes follow.
void move_tensors(UnitBuilder::Built& built, const std::function<Flat(std::size_t tensor)>& flat,
                  const std::function<int(std::size_t tensor)>& order);

}  // namespace strata
