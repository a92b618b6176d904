#include "engine/graph/fuse.h"

#include <algorithm>
#include <utility>

#include "engine/graph/operators/activation.h"
#include "engine/graph/operators/elementwise.h"
#include "engine/graph/operators/norm.h"

namespace strata {
namespace {

template <typename Rule>
bool is(const Node& node) {
  return dynamic_cast<const Rule*>(node.rule.get()) != nullptr;
}

std::ptrdiff_t readers(const UnitGraph& graph, const TensorView& view) {
  std::ptrdiff_t count = 0;
  for (const Node& node : graph.nodes) {
    for_each_operand(node, [&](const TensorView& operand, Touch touch) {
      if (touch != Touch::writes && operand.tensor == view.tensor) ++count;
    });
  }
  return count;
}

/// add, norm → norm with an addend. The kernel may write its output over `x`, so that is the newer one.
bool fuse_norm(const Node& add, Node& norm) {
  if (!is<AdditionRule>(add) || !is<NormRule>(norm) || norm[NormRule::x] != add[AdditionRule::out])
    return false;
  norm[NormRule::x] = add[AdditionRule::b];
  norm[NormRule::addend] = add[AdditionRule::a];
  norm[NormRule::sum] = add[AdditionRule::out];
  return true;
}

/// linear, add → linear with an addend.
bool fuse_linear(const UnitGraph& graph, const Node& linear, Node& add) {
  if (!is<LinearRule>(linear) || !is<AdditionRule>(add) || linear[LinearRule::addend]) return false;
  const TensorView& product = linear[LinearRule::out];
  if (readers(graph, product) != 1) return false;
  const bool is_first = add[AdditionRule::a] == product;
  if (!is_first && add[AdditionRule::b] != product) return false;
  Node fused = linear;
  fused[LinearRule::addend] = add[is_first ? AdditionRule::b : AdditionRule::a];
  fused[LinearRule::out] = add[AdditionRule::out];
  add = std::move(fused);
  return true;
}

/// linear, GELU → both. Other activations are not in products' epilogues.
bool fuse_activation(const UnitGraph& graph, const Node& linear, Node& activation) {
  const auto* product = dynamic_cast<const LinearRule*>(linear.rule.get());
  const auto* rule = dynamic_cast<const ActivationRule*>(activation.rule.get());
  if (product == nullptr || rule == nullptr || rule->is_gated() || rule->kind() != Activation::gelu_tanh)
    return false;
  const TensorView& sum = linear[LinearRule::out];
  if (linear[LinearRule::addend] || activation[ActivationRule::x] != sum || readers(graph, sum) != 1)
    return false;
  activation = {std::make_shared<LinearActivationRule>(*product, *rule),
                {linear[LinearRule::x], linear[LinearRule::weight], linear[LinearRule::bias], sum,
                 activation[ActivationRule::out]}};
  return true;
}

/// Takes out each node that `merge(node, next)` has made a part of the next one.
template <typename Merge>
void merge_neighbours(UnitGraph& graph, const Merge& merge) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool has_next = i + 1 < graph.nodes.size();
    if (!has_next || !merge(graph.nodes[i], graph.nodes[i + 1])) nodes.push_back(graph.nodes[i]);
  }
  graph.nodes = std::move(nodes);
}

}  // namespace

UnitGraph fuse(UnitGraph graph, Fusing fusing) {
  merge_neighbours(graph, fuse_norm);
  if (fusing == Fusing::norms) return graph;
  merge_neighbours(graph, [&](const Node& node, Node& next) {
    return fuse_linear(graph, node, next) || fuse_activation(graph, node, next);
  });
  return graph;
}

}  // namespace strata
