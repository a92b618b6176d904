// Neighbouring nodes that one kernel can do: a sum and the norm of it, a product and the sum that it goes to.
// What is fused decides bits of 16-bit results, so it is decided once for a graph, before anything is derived
// from it.
#pragma once

#include "engine/graph/unit_graph.h"

namespace strata {

UnitGraph fuse(UnitGraph graph);

}  // namespace strata
