#include "engine/graph/unit_passes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "engine/graph/derivation.h"
#include "engine/graph/fuse.h"

namespace strata {
namespace {

class PassMaker {
 public:
  PassMaker(const UnitGraph& graph, const GraphShape& shape)
      : shape_(shape), forward_(fuse(graph)), derived_(Derivation(forward_).finish()) {
    find_needed();
    for (const TensorId id : needed_)
      if (!can_be_remade(id)) kept_.insert(id);
  }

  UnitPasses make() {
    UnitPasses passes;
    std::set<TensorId> saved;
    passes.levels.push_back(level(saved));
    if (forward_.output < 0) return passes;
    std::vector<std::set<TensorId>> groups = groups_of_kept();
    while (!groups.empty()) {
      const auto best = std::ranges::max_element(groups, {}, [&](const std::set<TensorId>& group) {
        return std::pair(flops_spared(saved, group) / static_cast<double>(bytes_of_all(group)),
                         -bytes_of_all(group));
      });
      saved.merge(*best);
      groups.erase(best);
      passes.levels.push_back(level(saved));
    }
    return passes;
  }

 private:
  /// Made by this unit's forward pass.
  bool is_made(TensorId id) const {
    return id < std::ssize(forward_.tensors) && forward_.tensor(id).region == Region::workspace;
  }

  void find_needed() {
    for (const Node& node : derived_.nodes) {
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::writes && is_made(view.tensor)) needed_.insert(view.tensor);
      });
    }
  }

  static bool touches(const Node& node, TensorId id, bool (*how)(Touch)) {
    bool found = false;
    for_each_operand(node,
                     [&](const TensorView& view, Touch touch) { found |= view.tensor == id && how(touch); });
    return found;
  }
  static bool makes(const Node& node, TensorId id) {
    return touches(node, id, [](Touch touch) { return touch != Touch::reads; });
  }

  /// The nodes that make a tensor from what it takes least to have.
  std::vector<Node> makers_of(TensorId id) const {
    std::vector<Node> makers;
    for (const Node& node : forward_.nodes) {
      if (!makes(node, id)) continue;
      Node again = node.rule->again(node);
      makers.push_back(makes(again, id) ? std::move(again) : node);
    }
    return makers;
  }

  /// The tensors of the forward pass that a node reads.
  std::vector<TensorId> made_inputs(const Node& node) const {
    std::vector<TensorId> inputs;
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      if (touch == Touch::reads && is_made(view.tensor)) inputs.push_back(view.tensor);
    });
    return inputs;
  }

  bool can_be_remade(TensorId id) const {
    return std::ranges::all_of(makers_of(id), [&](const Node& maker) {
      return maker.rule->is_cheap() && std::ranges::all_of(made_inputs(maker), [&](TensorId input) {
               return needed_.contains(input) || can_be_remade(input);
             });
    });
  }

  UnitPasses::Level level(const std::set<TensorId>& saved) const {
    std::map<TensorId, Bytes> offsets;
    Bytes end = 0;
    std::vector<std::string> names;
    for (const TensorId id : saved) {
      offsets[id] = end;
      end += align_up(bytes_of(size_of(forward_.tensor(id), shape_)));
      names.push_back(forward_.tensor(id).name);
    }
    return {.forward = Segment(forward_, shape_, offsets, true),
            .backward = smallest_backward(saved, offsets),
            .saved_bytes = end,
            .saved = std::move(names)};
  }

  /// What one node makes is of use together only.
  std::vector<std::set<TensorId>> groups_of_kept() const {
    std::vector<std::set<TensorId>> groups;
    for (const Node& node : forward_.nodes) {
      std::set<TensorId> group;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch == Touch::writes && kept_.contains(view.tensor)) group.insert(view.tensor);
      });
      const bool is_known = std::ranges::find(groups, group) != groups.end();
      if (!group.empty() && !is_known) groups.push_back(std::move(group));
    }
    return groups;
  }

  Bytes bytes_of_all(const std::set<TensorId>& tensors) const {
    Bytes sum = 0;
    for (const TensorId id : tensors) sum += bytes_of(size_of(forward_.tensor(id), shape_));
    return sum;
  }

  double flops_spared(const std::set<TensorId>& saved, const std::set<TensorId>& more) const {
    const auto flops = [&](const std::set<TensorId>& there) {
      UnitGraph graph = forward_;
      graph.nodes = recomputed(there);
      return forward_flops(graph, shape_);
    };
    std::set<TensorId> both = saved;
    both.insert(more.begin(), more.end());
    return flops(saved) - flops(both);
  }

  /// The part of the forward pass that makes what is kept but not saved.
  std::vector<Node> recomputed(const std::set<TensorId>& saved) const {
    std::set<TensorId> wanted;
    std::ranges::set_difference(kept_, saved, std::inserter(wanted, wanted.end()));
    std::vector<Node> nodes;
    for (auto node = forward_.nodes.rbegin(); node != forward_.nodes.rend(); ++node) {
      const auto is_made_by = [&](const Node& maker) {
        return [&maker](TensorId id) { return makes(maker, id); };
      };
      if (std::ranges::none_of(wanted, is_made_by(*node))) continue;
      const Node again = node->rule->again(*node);
      const bool makes_enough =
          std::ranges::all_of(wanted, [&](TensorId id) { return !makes(*node, id) || makes(again, id); });
      const bool has_inputs = std::ranges::all_of(
          made_inputs(again), [&](TensorId id) { return !makes(*node, id) || saved.contains(id); });
      const bool is_enough = makes_enough && has_inputs;
      nodes.push_back(is_enough ? again : *node);
      for (const TensorId input : made_inputs(nodes.back()))
        if (!saved.contains(input)) wanted.insert(input);
    }
    std::ranges::reverse(nodes);
    return nodes;
  }

  /// Backward nodes behind `prefix`, each after what it needs that is not there.
  UnitGraph backward(const std::vector<Node>& prefix, std::set<TensorId> there) const {
    UnitGraph graph = derived_;
    graph.nodes = prefix;
    std::map<TensorId, TensorId> names;  // what is made twice is two tensors
    const auto remake = [&](const auto& self, TensorId id) -> void {
      if (there.contains(id)) return;
      for (const Node& maker : makers_of(id)) {
        for (const TensorId input : made_inputs(maker)) self(self, input);
        graph.nodes.push_back(maker);
        for_each_operand(maker, [&](const TensorView& view, Touch touch) {
          if (touch == Touch::reads || !is_made(view.tensor) || !there.insert(view.tensor).second) return;
          names[view.tensor] = graph.add(Tensor(graph.tensor(view)));
        });
        rename(graph.nodes.back(), names);
      }
    };
    for (const Node& node : derived_.nodes) {
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::writes && is_made(view.tensor)) remake(remake, view.tensor);
      });
      graph.nodes.push_back(node);
      rename(graph.nodes.back(), names);
    }
    return graph;
  }

  static void rename(Node& node, const std::map<TensorId, TensorId>& names) {
    for (TensorView& view : node.operands)
      if (const auto found = names.find(view.tensor); found != names.end()) view.tensor = found->second;
  }

  /// What cheap nodes have made on the way is held if that takes no more workspace.
  Segment smallest_backward(const std::set<TensorId>& saved, const std::map<TensorId, Bytes>& offsets) const {
    const std::vector<Node> prefix = recomputed(saved);
    std::set<TensorId> there = kept_;
    Segment best(backward(prefix, there), shape_, offsets, false);
    for (const Node& node : prefix) {
      std::set<TensorId> held = there;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::reads && needed_.contains(view.tensor)) held.insert(view.tensor);
      });
      if (held == there) continue;
      Segment segment(backward(prefix, held), shape_, offsets, false);
      if (segment.workspace_bytes() > best.workspace_bytes()) continue;
      best = std::move(segment);
      there = std::move(held);
    }
    return best;
  }

  const GraphShape& shape_;
  UnitGraph forward_, derived_;
  std::set<TensorId> needed_;  ///< by the backward pass, of the forward pass
  std::set<TensorId> kept_;
};

}  // namespace

UnitPasses make_passes(const UnitGraph& graph, const GraphShape& shape) {
  return PassMaker(graph, shape).make();
}

}  // namespace strata
