#include "engine/model/graph/derive.h"

#include "engine/model/graph/derivation.h"

namespace strata {

DerivedGraph derive(const UnitGraph& graph, Fusing fusing) {
  UnitGraph forward = fuse(graph, fusing);
  UnitGraph backward = Derivation(forward, fusing).finish();
  return {std::move(forward), std::move(backward)};
}

}  // namespace strata
