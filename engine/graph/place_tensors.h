// Places for the tensors of a segment: which of them share one, from their lifetimes and from what rules
// allow in place, and where each lies.
#pragma once

#include <map>
#include <vector>

#include "engine/graph/unit_graph.h"

namespace strata {

struct TensorPlace {
  Region region = Region::workspace;
  Bytes offset = 0;
};

struct PlacingProblem {
  const std::vector<Tensor>* tensors;
  const std::vector<Node>* nodes;               ///< in the order in which they run
  std::vector<Matrix> sizes;                    ///< of the tensors, as they are in memory
  std::map<TensorId, Bytes> saved;              ///< offsets of what is kept from forward to backward
  bool keeps_saved = false;                     ///< it is wanted after the last node
  std::ptrdiff_t loop_begin = 0, loop_end = 0;  ///< nodes that run for each chunk of rows
};

struct Placement {
  /// Where tensors of workspace, input_gradient and output lie; others lie where their regions say.
  std::map<TensorId, TensorPlace> places;
  Bytes workspace_bytes = 0;
};

Placement place_tensors(const PlacingProblem& problem);

}  // namespace strata
