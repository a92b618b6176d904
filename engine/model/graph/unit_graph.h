// What a unit computes, as a graph: tensors, and the nodes that make them, in an order in which they can run.
// Units of one kind share a graph.
#pragma once

#include <algorithm>
#include <vector>

#include "base/nth.h"
#include "engine/model/graph/operator.h"

namespace strata {

struct UnitGraph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  TensorId input = -1;  ///< what the unit before makes, or -1: it begins with data
  /// Whether a unit before has something to train.
  bool wants_input_gradient = true;
  TensorId output = -1;  ///< what the unit behind reads, or -1: it ends with losses

  const Tensor& tensor(TensorId id) const { return nth(tensors, id); }
  const Tensor& tensor(const TensorView& view) const { return tensor(view.tensor); }
  TensorId add(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(tensors.size()) - 1;
  }
};

/// Whether a node has the tensor as one operand and no other: what is written may take its place.
inline bool has_once(const Node& node, TensorId tensor) {
  return std::ranges::count(node.operands, tensor, &TensorView::tensor) == 1;
}

/// Calls visit(view, touch) for each operand that is given.
template <typename Visit>
void for_each_operand(const Node& node, const Visit& visit) {
  const Touches touches = node.rule->touches();
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (node.operands[i]) visit(node.operands[i], touches[i]);
}

/// Operands in which nodes read the tensor.
inline std::ptrdiff_t readers(const UnitGraph& graph, TensorId tensor) {
  std::ptrdiff_t count = 0;
  for (const Node& node : graph.nodes) {
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      if (touch != Touch::writes && view.tensor == tensor) ++count;
    });
  }
  return count;
}

/// Whether a node chooses by the tensor's values (Operator::decides_by()).
inline bool decides(const UnitGraph& graph, TensorId tensor) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i].tensor == tensor && node.rule->decides_by(static_cast<int>(i))) return true;
    return false;
  });
}

}  // namespace strata
