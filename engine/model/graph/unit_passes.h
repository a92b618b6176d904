// The passes of a unit, made from its graph: forward, and backward from what forward saved.
#pragma once

#include <string>
#include <vector>

#include "engine/model/graph/derive.h"
#include "engine/model/graph/unit_pass.h"

namespace strata {

/// What a backward pass needs of the forward pass and is too expensive to make again where it is needed (the
/// outputs of products and of attention) is *kept*. Of that, a level says what is saved from forward to
/// backward; the rest is made by a part of the forward pass in front of the backward pass. What is cheap
/// (outputs of norms and activations) is made again where it is needed, or held if that takes no more
/// workspace.
struct UnitPasses {
  struct Level {
    UnitPass forward;   ///< writes what it saves to Region::saved
    UnitPass backward;  ///< takes it from there, and uses it up
    /// The backward pass in two: what the unit before waits for, and the rest of the parameters' gradients.
    /// The former leaves in Region::pending what the latter needs. Either may be empty; a pass in chunks of
    /// rows is not divided, and is the former.
    UnitPass input_gradient, weight_gradient;
    Bytes saved_bytes = 0, pending_bytes = 0;
    std::vector<std::string> saved = {};  ///< names of tensors
  };

  /// The first saves nothing, each one more than the one before, in the order of the FLOPs that a byte
  /// spares, the last all that is kept. A unit whose forward is part of its backward has one.
  std::vector<Level> levels;

  const Level& saving_nothing() const { return levels.front(); }
  const Level& saving_all() const { return levels.back(); }
};

UnitPasses make_passes(const DerivedGraph& graph, const GraphShape& shape);

}  // namespace strata
