// Products of a graph whose operands are rounded before they are multiplied: what a precision changes in what
// a model computes.
#pragma once

#include "base/precision.h"
#include "engine/model/graph/unit_graph.h"

namespace strata {

/// The graph with its linear layers so rounded, and with them their gradients' products. Not a router's,
/// whose logits are compared; and not the grouped products of experts.
UnitGraph round_products(UnitGraph graph, Rounding rounding);

}  // namespace strata
