#include "engine/model/graph/row_keys.h"

#include <algorithm>

namespace strata {
namespace {

int operand_of_keys(const Node& node) {
  return node.rule->token_operands(node).row_keys;
}

}  // namespace

std::uint32_t next_site(const UnitGraph& graph) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      graph.nodes, [](const Node& node) { return operand_of_keys(node) != kNoOperand; }));
}

UnitGraph give_row_keys(UnitGraph graph, std::size_t array) {
  if (next_site(graph) == 0) return graph;
  const TensorView keys{graph.add({"row_keys", TensorType::int32, {}, token_axis(), data_region(array)})};
  for (Node& node : graph.nodes)
    if (const int operand = operand_of_keys(node); operand != kNoOperand) node[operand] = keys;
  return graph;
}

}  // namespace strata
