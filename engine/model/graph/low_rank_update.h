// A low-rank adapter beside columns of what a product makes, as a rule is told of it. adapters.h says what
// adapters are. A value.
#pragma once

#include <cstdint>
#include <string>

#include "engine/model/graph/unit_graph.h"

namespace strata {

/// out += scale · x · downᵀ · upᵀ, behind a product whose x it reads. With a magnitude, the product is the
/// adapter's alone: product and update are added up in `out`, and what the product's node wrote is that sum,
/// scaled to the magnitude, and then the bias.
struct LowRankUpdate {
  std::string layer = {};                     ///< stands before the names of its tensors
  Axis inputs = {}, outputs = {}, rank = {};  ///< the weight's, and the adapter's own
  TensorView down = {}, up = {};              ///< parameters [rank, inputs] and [outputs, rank]
  TensorView out = {};                        ///< the product's columns; with a magnitude like them
  double scale = 1;
  double dropout = 0;         ///< the probability that `down` does not get an element of x
  std::uint32_t site = 0;     ///< of the dropout (row_keys.h)
  TensorView magnitude = {};  ///< a parameter [outputs], or none
};

}  // namespace strata
