// In a backward pass, an activation that is made again and the gradient of it read the same tensor. Where
// whatever reads the activation can wait for the gradient of what it gives, one node makes both, and the
// tensor is read once. No bit depends on that, so it may be decided for each pass anew.
#pragma once

#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

/// The nodes, in an order that computes the same, with fewer of them if any two were merged.
std::vector<Node> merge_remade(std::vector<Node> nodes);

}  // namespace strata
