#include "engine/model/graph/merge_remade.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

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
  return node.rule->begins_segment() || node.rule->exchange_form();
}

/// From the node `remade` to `gradient`, with `both` in their place behind what does not need `remade`;
/// nothing if they have to stay apart.
std::optional<std::vector<Node>> merged(std::vector<Node>::const_iterator remade,
                                        std::vector<Node>::const_iterator gradient, Node both) {
  std::vector<Node> before, behind;
  for (auto node = remade + 1; node != gradient; ++node) {
    const bool waits = depend(*remade, *node) || std::ranges::any_of(behind, [&](const Node& waiting) {
                         return depend(waiting, *node);
                       });
    if (is_border(*node) || (waits && depend(*node, *gradient))) return std::nullopt;
    (waits ? behind : before).push_back(*node);
  }
  before.push_back(std::move(both));
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

}  // namespace

std::vector<Node> merge_remade(std::vector<Node> nodes) {
  for (std::ptrdiff_t i = 0; i < std::ssize(nodes);) {
    const auto remade = nodes.cbegin() + i;
    std::optional<Node> both;
    const auto gradient = std::find_if(remade + 1, nodes.cend(), [&](const Node& node) {
      both = node.rule->with_remade(node, *remade);
      return both.has_value();
    });
    std::optional<std::vector<Node>> stretch;
    if (both) stretch = merged(remade, gradient, *std::move(both));
    if (!stretch) {
      ++i;
      continue;
    }
    const auto next = nodes.erase(remade, gradient + 1);
    nodes.insert(next, stretch->begin(), stretch->end());
  }
  return nodes;
}

}  // namespace strata
