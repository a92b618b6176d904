#include "engine/graph/round_products.h"

#include "engine/graph/operators/experts.h"
#include "engine/graph/operators/linear.h"

namespace strata {

UnitGraph round_products(UnitGraph graph, Rounding rounding) {
  for (Node& node : graph.nodes) {
    const auto* linear = dynamic_cast<const LinearRule*>(node.rule.get());
    if (linear != nullptr && !is_routed_by(graph, node[LinearRule::out]))
      node.rule = std::make_shared<LinearRule>(linear->order(), rounding);
  }
  return graph;
}

}  // namespace strata
