#include "engine/graph/row_keys.h"

#include <algorithm>

#include "engine/graph/operators/dropout.h"

namespace strata {
namespace {

bool is_dropout(const Node& node) {
  return dynamic_cast<const DropoutRule*>(node.rule.get()) != nullptr;
}

}  // namespace

std::uint32_t next_site(const UnitGraph& graph) {
  return static_cast<std::uint32_t>(std::ranges::count_if(graph.nodes, is_dropout));
}

UnitGraph give_row_keys(UnitGraph graph, std::size_t array) {
  if (next_site(graph) == 0) return graph;
  const TensorView keys{graph.add({"row_keys", TensorType::int32, {}, token_axis(), data_region(array)})};
  for (Node& node : graph.nodes)
    if (is_dropout(node)) node[DropoutRule::keys] = keys;
  return graph;
}

}  // namespace strata
