#include "engine/model/graph/operators/cross_entropy.h"

#include "engine/device/loss_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/operators/softmax_parts.h"
#include "engine/model/graph/share_columns.h"

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

bool CrossEntropyRule::share_columns(const Node& node, const ColumnSharing& sharing, UnitGraph& graph) const {
  const Tensor& whole = graph.tensor(node[logits]);
  if (!sharing.splits(whole.columns)) return false;
  const TensorView statistics{graph.add(
      {"softmax_statistics", TensorType::fp32, whole.rows, {kUncut, kSoftmaxStatistics * sharing.ranks}})};
  graph.nodes.push_back(
      {std::make_shared<SoftmaxPartsRule>(soft_cap_), {node[logits], node[targets], statistics}});
  graph.nodes.push_back({std::make_shared<PartsLossRule>(), {node[penalty], statistics, node[losses]}});
  return true;
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
