// Both passes of a unit as graphs, from which its passes are made.
#pragma once

#include "engine/model/graph/fuse.h"

namespace strata {

struct DerivedGraph {
  UnitGraph forward;   ///< fused
  UnitGraph backward;  ///< its first tensors are those of forward
};

DerivedGraph derive(const UnitGraph& graph, Fusing fusing = Fusing::all);

}  // namespace strata
