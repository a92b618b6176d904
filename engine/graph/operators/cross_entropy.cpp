#include "engine/graph/operators/cross_entropy.h"

#include <algorithm>
#include <utility>

#include "engine/graph/derivation.h"
#include "engine/graph/operators/softmax_parts.h"

namespace strata {

void CrossEntropyRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(CrossEntropy{.logits = operands[logits],
                           .targets = operands.indices(targets),
                           .losses = operands[losses],
                           .penalty = static_cast<const float*>(operands[penalty].data),
                           .soft_cap = soft_cap_,
                           .gradient = false});
}

void CrossEntropyRule::differentiate(const Node& node, Derivation& derivation) const {
  const TensorView loss_scale = derivation.add({"loss_scale", TensorType::fp32, {}, {}, Region::loss_scale});
  derivation.add(std::make_shared<CrossEntropyGradientRule>(soft_cap_),
                 {node[penalty], node[logits], node[targets], node[losses], loss_scale});
  derivation.pass(node[logits], node[logits]);
}

UnitGraph split_losses(UnitGraph graph, std::span<const AxisName> axes, std::int64_t parts) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const auto* rule = dynamic_cast<const CrossEntropyRule*>(node.rule.get());
    const auto is_split = [&](const TensorView& logits) {
      const Axis& columns = graph.tensor(logits).columns;
      return std::ranges::any_of(axes, [&](AxisName axis) { return columns.has(axis); });
    };
    if (rule == nullptr || !is_split(node[CrossEntropyRule::logits])) {
      nodes.push_back(std::move(node));
      continue;
    }
    const TensorView& logits = node[CrossEntropyRule::logits];
    const TensorView statistics{graph.add({"softmax_statistics",
                                           TensorType::fp32,
                                           graph.tensor(logits).rows,
                                           {kUncut, kSoftmaxStatistics * parts}})};
    nodes.push_back({std::make_shared<SoftmaxPartsRule>(rule->soft_cap()),
                     {logits, node[CrossEntropyRule::targets], statistics}});
    nodes.push_back({std::make_shared<PartsLossRule>(),
                     {node[CrossEntropyRule::penalty], statistics, node[CrossEntropyRule::losses]}});
  }
  graph.nodes = std::move(nodes);
  return graph;
}

void CrossEntropyGradientRule::run(Kernels& kernels, const Operands& operands) const {
  kernels.run(CrossEntropy{.logits = operands[logits],
                           .targets = operands.indices(targets),
                           .losses = operands[losses],
                           .gradient_scale = operands.loss_factor(),
                           .loss_scale = static_cast<const float*>(operands[loss_scale].data),
                           .penalty = static_cast<const float*>(operands[penalty].data),
                           .soft_cap = soft_cap_});
}

}  // namespace strata
