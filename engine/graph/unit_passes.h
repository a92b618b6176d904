// The passes of a unit, made from its graph: forward, and backward from what forward kept or from its input
// alone.
#pragma once

#include "engine/graph/segment.h"

namespace strata {

/// What a backward pass needs of the forward pass and is too expensive to make again is *kept*: in the region
/// saved, or, if nothing was saved, in the workspace of a backward pass that begins with a forward pass. The
/// rest of what it needs (outputs of norms and activations) is made again where it is needed, or held if that
/// takes no more workspace.
struct UnitPasses {
  Segment forward;         ///< keeps nothing
  Segment saving_forward;  ///< writes what is kept to saved
  Segment backward;        ///< takes it from there, and uses it up
  Segment recomputing_backward;
  const Segment& forward_pass(bool saves) const { return saves ? saving_forward : forward; }
  const Segment& backward_pass(bool saved) const { return saved ? backward : recomputing_backward; }

  Bytes saved_bytes = 0;  ///< 0: nothing can be saved, since the unit's forward is part of its backward
};

UnitPasses make_passes(const UnitGraph& graph, const GraphShape& shape);

}  // namespace strata
