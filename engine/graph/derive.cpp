#include "engine/graph/derive.h"

#include "engine/graph/derivation.h"
#include "engine/graph/fuse.h"

namespace strata {

DerivedGraph derive(const UnitGraph& graph) {
  UnitGraph forward = fuse(graph);
  UnitGraph backward = Derivation(forward).finish();
  return {std::move(forward), std::move(backward)};
}

}  // namespace strata
