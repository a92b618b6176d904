#include "engine/model/graph/round_products.h"

namespace strata {

UnitGraph round_products(UnitGraph graph, Rounding rounding) {
  for (Node& node : graph.nodes) {
    const std::optional<ProductForm> product = node.rule->product_form();
    if (product && !decides(graph, node[product->out].tensor)) node.rule = node.rule->rounded(rounding);
  }
  return graph;
}

}  // namespace strata
