// Neighbouring nodes that one kernel can do: a sum and the norm of it, a product and the sum that it goes to
// or the GELU of it.
// What is fused decides bits of 16-bit results, so it is decided once for a graph, before anything is derived
// from it.
#pragma once

#include "engine/model/graph/unit_graph.h"

namespace strata {

enum class Fusing : std::uint8_t {
  all,
  norms  ///< products stay alone: what they make has to travel before it is added to something
};

UnitGraph fuse(UnitGraph graph, Fusing fusing = Fusing::all);

}  // namespace strata
