#include "engine/model/graph/fuse.h"

#include <optional>
#include <utility>
#include <vector>

namespace strata {
namespace {

/// Fuses each node for which `is_first(node)` says so with the next one, if the node's rule can do that.
template <typename IsFirst>
void fuse_neighbours(UnitGraph& graph, const IsFirst& is_first) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::optional<Node> fused;
    if (i + 1 < graph.nodes.size() && is_first(node))
      fused = node.rule->fuse_next(graph, node, graph.nodes[i + 1]);
    if (fused) {
      graph.nodes[i + 1] = std::move(*fused);
    } else {
      nodes.push_back(node);
    }
  }
  graph.nodes = std::move(nodes);
}

bool is_product(const Node& node) {
  return node.rule->product_form().has_value();
}

}  // namespace

UnitGraph fuse(UnitGraph graph, Fusing fusing) {
  fuse_neighbours(graph, [](const Node& node) { return !is_product(node); });
  if (fusing == Fusing::all) fuse_neighbours(graph, is_product);
  return graph;
}

}  // namespace strata
