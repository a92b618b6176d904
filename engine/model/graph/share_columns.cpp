#include "engine/model/graph/share_columns.h"

#include <algorithm>
#include <utility>

namespace strata {

bool ColumnSharing::splits(const Axis& axis) const {
  return std::ranges::any_of(axes, [&](AxisName name) { return axis.has(name); });
}

UnitGraph share_columns(UnitGraph graph, const ColumnSharing& sharing) {
  for (Node& node : std::exchange(graph.nodes, {}))
    if (!node.rule->share_columns(node, sharing, graph)) graph.nodes.push_back(std::move(node));
  return graph;
}

}  // namespace strata
