#include "engine/graph/merge_remade.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/graph/operators/activation.h"
#include "engine/graph/operators/exchange.h"

namespace strata {
namespace {

/// Whether one of them writes what the other touches.
bool depend(const Node& a, const Node& b) {
  bool found = false;
  for_each_operand(a, [&](const TensorView& of_a, Touch touch_a) {
    for_each_operand(b, [&](const TensorView& of_b, Touch touch_b) {
      found |= of_a.tensor == of_b.tensor && (touch_a != Touch::reads || touch_b != Touch::reads);
    });
  });
  return found;
}

/// Ranks wait for one another there: what stands before it stays before it.
bool is_border(const Node& node) {
  return node.rule->begins_segment() || dynamic_cast<const ExchangeRule*>(node.rule.get()) != nullptr;
}

/// The gradient of the same activation of the same tensor.
bool is_gradient_of(const Node& gradient, const Node& activation) {
  const auto* made = dynamic_cast<const ActivationRule*>(activation.rule.get());
  const auto* rule = dynamic_cast<const ActivationGradientRule*>(gradient.rule.get());
  return made != nullptr && rule != nullptr && made->kind() == rule->kind() &&
         made->is_gated() == rule->is_gated() &&
         activation[ActivationRule::x] == gradient[ActivationGradientRule::x] &&
         !gradient[ActivationGradientRule::out];
}

/// From the activation to its gradient, with both as one node behind what does not need the activation;
/// nothing if they have to stay apart.
std::optional<std::vector<Node>> merged(std::vector<Node>::const_iterator activation,
                                        std::vector<Node>::const_iterator gradient) {
  std::vector<Node> before, behind;
  for (auto node = activation + 1; node != gradient; ++node) {
    const bool waits = depend(*activation, *node) || std::ranges::any_of(behind, [&](const Node& waiting) {
                         return depend(waiting, *node);
                       });
    if (is_border(*node) || (waits && depend(*node, *gradient))) return std::nullopt;
    (waits ? behind : before).push_back(*node);
  }
  Node both = *gradient;
  both[ActivationGradientRule::out] = (*activation)[ActivationRule::out];
  before.push_back(std::move(both));
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

}  // namespace

std::vector<Node> merge_remade(std::vector<Node> nodes) {
  for (std::ptrdiff_t i = 0; i < std::ssize(nodes);) {
    const auto activation = nodes.cbegin() + i;
    const auto gradient = std::find_if(activation + 1, nodes.cend(),
                                       [&](const Node& node) { return is_gradient_of(node, *activation); });
    std::optional<std::vector<Node>> stretch;
    if (gradient != nodes.cend()) stretch = merged(activation, gradient);
    if (!stretch) {
      ++i;
      continue;
    }
    const auto next = nodes.erase(activation, gradient + 1);
    nodes.insert(next, stretch->begin(), stretch->end());
  }
  return nodes;
}

}  // namespace strata
