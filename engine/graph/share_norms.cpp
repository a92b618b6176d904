#include "engine/graph/share_norms.h"

#include <algorithm>
#include <utility>

#include "engine/graph/legality.h"
#include "engine/graph/operators/norm.h"

namespace strata {
namespace {

bool is_shared(const UnitGraph& graph, const Node& node, std::span<const AxisName> axes) {
  const auto* norm = dynamic_cast<const NormRule*>(node.rule.get());
  if (norm == nullptr || norm->options().kind != NormKind::rms_norm || node[NormRule::addend]) return false;
  const Axis columns = axes_of(graph, node[NormRule::x])[1];
  return std::ranges::any_of(axes, [&](AxisName axis) { return columns.has(axis); });
}

}  // namespace

UnitGraph share_norms(UnitGraph graph, std::span<const AxisName> axes) {
  for (Node& node : std::exchange(graph.nodes, {})) {
    if (!is_shared(graph, node, axes)) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    const NormOptions options = static_cast<const NormRule&>(*node.rule).options();
    const TensorView &x = node[NormRule::x], &deviation = node[NormRule::deviation];
    const std::int64_t columns = axes_of(graph, x)[1].extent().count;
    Tensor sums = graph.tensor(deviation);
    sums.name = graph.tensor(node[NormRule::out]).name + ".squares";
    const TensorView squares{graph.add(std::move(sums))};
    graph.nodes.push_back({std::make_shared<RowSquaresRule>(), {x, squares}});
    graph.nodes.push_back(
        {std::make_shared<RowDeviationRule>(options.epsilon, columns), {squares, deviation}});
    graph.nodes.push_back({std::make_shared<SharedNormRule>(options, columns),
                           {x, deviation, node[NormRule::weight], node[NormRule::out]}});
  }
  return graph;
}

}  // namespace strata
