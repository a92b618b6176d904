#include "engine/graph/round_products.h"

#include <algorithm>

#include "engine/graph/operators/experts.h"
#include "engine/graph/operators/linear.h"

namespace strata {

UnitGraph round_products(UnitGraph graph, Rounding rounding) {
  const auto is_for_routing = [&](const TensorView& logits) {
    return std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return dynamic_cast<const RouteRule*>(node.rule.get()) != nullptr &&
             node[RouteRule::logits].tensor == logits.tensor;
    });
  };
  for (Node& node : graph.nodes) {
    const auto* linear = dynamic_cast<const LinearRule*>(node.rule.get());
    if (linear != nullptr && !is_for_routing(node[LinearRule::out]))
      node.rule = std::make_shared<LinearRule>(linear->order(), rounding);
  }
  return graph;
}

}  // namespace strata
