// A head that ends with logits in place of losses: what generation and samples choose tokens by. Pure
// functions of graphs; any thread.
#pragma once

#include <cmath>
#include <cstddef>

#include "engine/model/graph/unit_graph.h"

namespace strata {

struct LogitsGraph {
  UnitGraph graph;  ///< its logits lie in Region::logits, of all rows at once
  TensorId logits = -1;
  float soft_cap = 0;  ///< c > 0: a logit x counts as c · tanh(x / c)
};

/// What a logit counts as.
inline float capped(float logit, float soft_cap) {
  return soft_cap > 0 ? soft_cap * std::tanh(logit / soft_cap) : logit;
}

/// `head` without its loss. Throws std::logic_error if it has none of logits.
LogitsGraph without_loss(UnitGraph head);

/// A unit that computes one token of each sequence only. Data array number `array`, called "last_rows", has
/// the tokens' rows, in place of the targets.
UnitGraph of_last_rows(UnitGraph head, std::size_t array);

}  // namespace strata
