#include "engine/graph/unit_passes.h"

#include <algorithm>
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
    const std::map<TensorId, Bytes> saved = forward_.output < 0 ? std::map<TensorId, Bytes>{} : place_saved();
    return {.forward = Segment(forward_, shape_, {}, false),
            .saving_forward = Segment(forward_, shape_, saved, true),
            .backward =
                saved.empty() ? recomputing_backward() : Segment(backward({}, kept_), shape_, saved, false),
            .recomputing_backward = recomputing_backward(),
            .saved_bytes = saved_bytes_};
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

  std::map<TensorId, Bytes> place_saved() {
    std::map<TensorId, Bytes> saved;
    for (const TensorId id : kept_) {
      saved[id] = saved_bytes_;
      saved_bytes_ += align_up(bytes_of(size_of(forward_.tensor(id), shape_)));
    }
    return saved;
  }

  /// The part of the forward pass that makes what is kept.
  std::vector<Node> recomputed() const {
    std::set<TensorId> wanted = kept_;
    std::vector<Node> nodes;
    for (auto node = forward_.nodes.rbegin(); node != forward_.nodes.rend(); ++node) {
      if (std::ranges::none_of(wanted, [&](TensorId id) { return makes(*node, id); })) continue;
      for (const TensorId input : made_inputs(*node)) wanted.insert(input);
      nodes.push_back(*node);
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

  Segment recomputing_backward() const {
    const std::vector<Node> prefix = recomputed();
    std::set<TensorId> there = kept_;
    Segment best(backward(prefix, there), shape_, {}, false);
    for (const Node& node : prefix) {
      std::set<TensorId> held = there;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::reads && needed_.contains(view.tensor)) held.insert(view.tensor);
      });
      if (held == there) continue;
      Segment segment(backward(prefix, held), shape_, {}, false);
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
  Bytes saved_bytes_ = 0;
};

}  // namespace

UnitPasses make_passes(const UnitGraph& graph, const GraphShape& shape) {
  return PassMaker(graph, shape).make();
}

}  // namespace strata
