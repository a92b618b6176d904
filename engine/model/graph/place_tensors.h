// Places for the tensors of a pass: which of them share one, from their lifetimes and from what rules
// allow in place, and where each lies.
#pragma once

#include <map>
#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

struct TensorPlace {
  Region region = Region::workspace;
  Bytes offset = 0;
};

/// A tensor that outlives the pass, or that is there before it: it has its place.
struct GivenTensor {
  TensorPlace place;
  bool is_there = false;  ///< when the pass begins
  bool is_kept = false;   ///< when it ends; otherwise it may be used up
};
using GivenTensors = std::map<TensorId, GivenTensor>;

struct PlacingProblem {
  const std::vector<Tensor>* tensors;
  const std::vector<Node>* nodes;  ///< in the order in which they run
  std::vector<bool> in_chunks;     ///< by tensor, whether it exists by some rows after others
  std::vector<Matrix> sizes;       ///< of the tensors, as they are in memory
  GivenTensors given;
  std::ptrdiff_t loop_begin = 0, loop_end = 0;  ///< nodes that run for each chunk of rows
};

struct TensorPlacement {
  /// Where tensors of workspace, input_gradient and output lie; others lie where their regions say.
  std::map<TensorId, TensorPlace> places;
  Bytes workspace_bytes = 0;
};

TensorPlacement place_tensors(const PlacingProblem& problem);

}  // namespace strata
