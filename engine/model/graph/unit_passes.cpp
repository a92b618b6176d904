#include "engine/model/graph/unit_passes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "engine/model/graph/merge_remade.h"

namespace strata {
namespace {

class PassMaker {
 public:
  PassMaker(const DerivedGraph& graph, const GraphShape& shape)
      : shape_(shape), forward_(graph.forward), derived_(graph.backward) {
    has_chunks_ = std::ranges::any_of(forward_.tensors, &Tensor::in_chunks);
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
  /// Made by this unit's forward pass, and gone with it if it is not kept.
  bool is_made(TensorId id) const {
    if (id >= std::ssize(forward_.tensors)) return false;
    const Region region = forward_.tensor(id).region;
    return region == Region::workspace || is_ring(region);
  }

  void find_needed() {
    for (const Node& node : derived_.nodes) {
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::writes && is_made(view.tensor)) needed_.insert(view.tensor);
      });
    }
    for (const Node& node : forward_.nodes) {  // what is gathered again is needed in parts
      const std::optional<ExchangeForm> exchange = node.rule->exchange_form();
      if (!exchange || exchange->kind != ExchangeKind::all_gather) continue;
      const TensorId part = node[exchange->source].tensor;
      if (needed_.contains(node[exchange->destination].tensor) && is_made(part)) needed_.insert(part);
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
      const Node again = node.rule->again(node);
      makers.push_back(makes(again, id) ? again : node);
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

  /// What is gathered again cannot be between chunks of rows.
  bool can_be_remade(TensorId id) const {
    return std::ranges::all_of(makers_of(id), [&](const Node& maker) {
      const bool is_exchange = maker.rule->exchange_form().has_value();
      return maker.rule->is_cheap() && !(has_chunks_ && is_exchange) &&
             std::ranges::all_of(made_inputs(maker), [&](TensorId input) {
               return needed_.contains(input) || can_be_remade(input);
             });
    });
  }

  /// Whether it has its bits again if it is made of what is kept.
  bool has_its_bits_again(TensorId id) const {
    if (kept_.contains(id)) return true;
    return std::ranges::all_of(forward_.nodes, [&](const Node& node) {
      if (!makes(node, id)) return true;
      const std::vector<TensorId> inputs = made_inputs(node);
      return node.rule->again_has_its_bits() &&
             std::ranges::all_of(inputs, [&](TensorId input) { return has_its_bits_again(input); });
    });
  }

  /// Places tensors one after another in a region.
  class Places {
   public:
    Places(Region region, const GraphShape& shape) : region_(region), shape_(shape) {}

    TensorPlace next(const Tensor& tensor) {
      return {region_, std::exchange(end_, end_ + align_up(bytes_of(size_of(tensor, shape_))))};
    }
    Bytes end() const { return end_; }

   private:
    Region region_;
    const GraphShape& shape_;
    Bytes end_ = 0;
  };

  UnitPasses::Level level(const std::set<TensorId>& saved) const {
    UnitPasses::Level level;
    Places places(Region::saved, shape_);
    GivenTensors made, found;
    for (const TensorId id : saved) {
      const TensorPlace place = places.next(forward_.tensor(id));
      made[id] = {.place = place, .is_kept = true};
      found[id] = {.place = place, .is_there = true};
      level.saved.push_back(forward_.tensor(id).name);
    }
    level.saved_bytes = places.end();
    level.forward = UnitPass(forward_, shape_, made);
    UnitGraph graph = smallest_backward(saved, found);
    level.backward = UnitPass(graph, shape_, found);
    divide(graph, found, level);
    merge_remade(std::move(graph), found, level.backward);
    return level;
  }

  /// Unless that takes more workspace. A pass in two stays as it is: what the second part makes again there,
  /// the first would have to leave it.
  void merge_remade(UnitGraph graph, const GivenTensors& found, UnitPass& backward) const {
    const std::size_t nodes = graph.nodes.size();
    graph.nodes = strata::merge_remade(std::move(graph.nodes));
    if (graph.nodes.size() == nodes) return;
    UnitPass merged(graph, shape_, found);
    if (merged.workspace_bytes() <= backward.workspace_bytes()) backward = std::move(merged);
  }

  /// The passes input_gradient and weight_gradient, from that of both.
  void divide(const UnitGraph& graph, const GivenTensors& found, UnitPasses::Level& level) const {
    const std::vector<bool> is_first = belong_to_input_gradient(graph);
    UnitGraph first = graph, second = graph;
    first.nodes.clear();
    second.nodes.clear();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      (is_first[i] ? first : second).nodes.push_back(graph.nodes[i]);
    std::set<TensorId> needed, made;
    for (const Node& node : second.nodes) {
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::writes) needed.insert(view.tensor);
      });
    }
    for (const Node& node : first.nodes) {
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::reads && graph.tensor(view).region == Region::workspace) made.insert(view.tensor);
      });
    }
    Places places(Region::pending, shape_);
    GivenTensors of_first = found, of_second;
    for (const TensorId id : needed) {
      if (found.contains(id)) {
        of_second[id] = found.at(id);
        of_first[id].is_kept = true;
      } else if (made.contains(id)) {
        const TensorPlace place = places.next(graph.tensor(id));
        of_first[id] = {.place = place, .is_kept = true};
        of_second[id] = {.place = place, .is_there = true};
      }
    }
    level.pending_bytes = places.end();
    level.input_gradient = UnitPass(first, shape_, of_first);
    level.weight_gradient = UnitPass(second, shape_, of_second);
    for (std::size_t i = 0; i < kRings; ++i) {
      if (level.weight_gradient.touches(ring_region(i)))
        throw std::logic_error("weights' gradients are made of what has gone round a ring");
    }
  }

  /// By node, whether something needs it besides gradients of parameters.
  static std::vector<bool> belong_to_input_gradient(const UnitGraph& graph) {
    const auto is_of_parameters = [](const Tensor& tensor) {
      return tensor.region == Region::gradient || tensor.region == Region::shared_gradient;
    };
    const auto any = [&](const Node& node, const auto& fits) {
      bool found = false;
      for_each_operand(node, [&](const TensorView& view, Touch touch) { found |= fits(view, touch); });
      return found;
    };
    const bool has_chunks = std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return any(node, [&](const TensorView& view, Touch) { return graph.tensor(view).in_chunks; });
    });
    std::vector<bool> belongs(graph.nodes.size(), has_chunks);
    if (has_chunks) return belongs;
    std::set<TensorId> wanted, changed_behind;
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
      const Node& node = graph.nodes[i];
      belongs[i] = any(node, [&](const TensorView& view, Touch touch) {
        const Tensor& tensor = graph.tensor(view);
        // What goes round is gone when the weights' gradients are made.
        if (touch == Touch::reads) return is_ring(tensor.region) || changed_behind.contains(view.tensor);
        return wanted.contains(view.tensor) ||
               (tensor.region != Region::workspace && !is_of_parameters(tensor));
      });
      if (!belongs[i]) continue;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::writes) wanted.insert(view.tensor);
        if (touch != Touch::reads) changed_behind.insert(view.tensor);
      });
    }
    return belongs;
  }

  /// What one node makes is of use together only. What does not grow with the microbatch takes little, so all
  /// of it is one group: each more is a level.
  std::vector<std::set<TensorId>> groups_of_kept() const {
    std::vector<std::set<TensorId>> groups;
    std::set<TensorId> of_one_size;
    for (const Node& node : forward_.nodes) {
      std::set<TensorId> group;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch == Touch::writes && kept_.contains(view.tensor)) group.insert(view.tensor);
      });
      const bool is_known = std::ranges::find(groups, group) != groups.end();
      if (group.empty() || is_known) continue;
      if (std::ranges::all_of(group, [&](TensorId id) { return has_one_size(forward_.tensor(id)); })) {
        of_one_size.merge(group);
      } else {
        groups.push_back(std::move(group));
      }
    }
    if (!of_one_size.empty()) groups.push_back(std::move(of_one_size));
    return groups;
  }

  /// Whatever the microbatch's shape is.
  static bool has_one_size(const Tensor& tensor) {
    constexpr auto kFixed = Extent::Per::microbatch;
    return tensor.rows.extent().per == kFixed && tensor.columns.extent().per == kFixed;
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
      const bool is_enough = makes_enough && has_inputs && node->rule->again_has_its_bits();
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
  UnitGraph smallest_backward(const std::set<TensorId>& saved, const GivenTensors& given) const {
    const std::vector<Node> prefix = recomputed(saved);
    std::set<TensorId> there = kept_;
    UnitGraph graph = backward(prefix, there);
    Bytes least = workspace_bytes_of(graph, shape_, given);
    for (const Node& node : prefix) {
      std::set<TensorId> held = there;
      for_each_operand(node, [&](const TensorView& view, Touch touch) {
        if (touch != Touch::reads && needed_.contains(view.tensor) && has_its_bits_again(view.tensor))
          held.insert(view.tensor);
      });
      if (held == there) continue;
      UnitGraph next = backward(prefix, held);
      const Bytes bytes = workspace_bytes_of(next, shape_, given);
      if (bytes > least) continue;
      graph = std::move(next);
      least = bytes;
      there = std::move(held);
    }
    return graph;
  }

  const GraphShape& shape_;
  const UnitGraph &forward_, &derived_;
  bool has_chunks_ = false;
  std::set<TensorId> needed_;  ///< by the backward pass, of the forward pass
  std::set<TensorId> kept_;
};

}  // namespace

UnitPasses make_passes(const DerivedGraph& graph, const GraphShape& shape) {
  return PassMaker(graph, shape).make();
}

}  // namespace strata
