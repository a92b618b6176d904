#include "engine/model/graph/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/graph/legality.h"

namespace strata {
namespace {

using Form = Layout::Form;

/// What a node does under a split.
struct NodeSplit {
  std::optional<AxisName> axis;
  bool sums = false;             ///< over that axis
  std::vector<bool> is_divided;  ///< operands that have the axis
  std::string variable;
  std::int64_t length = 0;
};

class Propagation {
 public:
  Propagation(const UnitGraph& graph, std::span<const AxisName> axes, std::int64_t ranks,
              std::span<const AxisName> padded)
      : graph_(graph), axes_(axes), states_(graph.tensors.size()) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& tensor = graph.tensors[i];
      for (const AxisName axis : axes) {
        const bool is_padded = std::ranges::find(padded, axis) != padded.end();
        refuse_uneven(tensor.rows, axis, ranks, is_padded);
        refuse_uneven(tensor.columns, axis, ranks, is_padded);
      }
      if (is_given(tensor)) states_[i].now = split_of(tensor);
      made_.push_back(states_[i].now);
    }
  }

  std::vector<TensorExchange> run(const std::vector<Node>& nodes, TensorId handed_over) {
    exchanges_.clear();
    node_layouts_.clear();
    nodes_ = &nodes;
    handed_over_ = handed_over;
    for (State& state : states_) state.is_gathered = false;
    for (number_ = 0; number_ < nodes.size(); ++number_) run_node(nodes[number_]);
    if (handed_over >= 0) bring(handed_over, split_of(graph_.tensor(handed_over)));
    return exchanges_;
  }

  const std::vector<Layout>& made() const { return made_; }
  const std::vector<NodeLayout>& nodes() const { return node_layouts_; }

 private:
  struct State {
    Layout now;
    bool is_gathered = false;  ///< ranks have all of it beside their stretch
  };

  State& state(TensorId id) { return nth(states_, id); }

  static void refuse_uneven(const Axis& axis, AxisName name, std::int64_t ranks, bool is_padded) {
    for (const Dimensions& part : axis.parts()) {
      for (const Dimension& dimension : part) {
        if (dimension.name != name || dimension.length.per != Extent::Per::microbatch) continue;
        const std::int64_t count = dimension.length.count;
        if (is_padded && (count + ranks - 1) / ranks * (ranks - 1) >= count)
          throw ConfigError(
              fmt::format("the axis {} of {} is too short for {} ranks: the last would have none",
                          name.text(), count, ranks));
        if (!is_padded && count % ranks != 0)
          throw ConfigError(
              fmt::format("the axis {} of {} does not divide among {} ranks; split it over a divisor of {}",
                          name.text(), count, ranks, count));
      }
    }
  }

  static bool is_parameter(const Tensor& tensor) {
    return is_of_parameters(tensor.region) || tensor.region == Region::gradient ||
           tensor.region == Region::shared_gradient;
  }
  static bool is_given(const Tensor& tensor) {
    return is_parameter(tensor) || tensor.region == Region::input || tensor.region == Region::output_gradient;
  }

  Layout split_of(const Tensor& tensor) const {
    for (const AxisName axis : axes_)
      if (tensor.rows.has(axis) || tensor.columns.has(axis)) return {Form::split, axis};
    return {};
  }

  void bring(TensorId id, const Layout& wanted) {
    State& state = this->state(id);
    if (state.now == wanted || state.now.form == Form::whole || state.is_gathered) return;
    if (state.now.form == Form::split && wanted.form == Form::split)
      throw std::logic_error(graph_.tensor(id).name + " would have to be split on another axis");
    const auto exchange = [&](ExchangeKind kind) { exchanges_.push_back({kind, id, number_}); };
    if (state.now.form == Form::partial_sum) {
      exchange(wanted.form == Form::split ? ExchangeKind::reduce_scatter : ExchangeKind::all_reduce);
      state.now = wanted;
    } else {
      exchange(ExchangeKind::all_gather);
      state.is_gathered = true;
    }
  }

  /// Losses are of all tokens, and chunks of rows are.
  bool takes_all_tokens(const Node& node) const {
    return std::ranges::any_of(node.operands, [&](const TensorView& view) {
      return view && (graph_.tensor(view).in_chunks || graph_.tensor(view).region == Region::losses);
    });
  }

  /// Whether the variable of a dimension has those outside of it, too: then a rank's stretch is in one piece.
  static bool has_all_outside(const std::vector<BoundDimension>& bound, const BoundDimension& inner) {
    return std::ranges::none_of(bound, [&](const BoundDimension& each) {
      return each.operand == inner.operand && each.axis == inner.axis && each.part == inner.part &&
             each.depth < inner.depth && each.variable != inner.variable;
    });
  }

  /// Parameters decide on which axis a node is split; without one that is, what it reads first, and if that
  /// is sums only, the axis that these would be split on.
  NodeSplit find_split(const Node& node, const Legality& legality, const Touches& touches) {
    const std::vector<BoundDimension> bound = bind_axes(node, graph_, legality);
    NodeSplit split;
    split.is_divided.resize(node.operands.size());
    const auto can_split_on = [&](AxisName axis) {
      return std::ranges::any_of(bound, [&](const BoundDimension& each) {
        return each.dimension.name == axis && can_split(legality, bound, each.variable, axis) &&
               (axis != kTokens || (!takes_all_tokens(node) && has_all_outside(bound, each)));
      });
    };
    bool is_decided = false;
    for (std::size_t i = 0; i < node.operands.size() && !is_decided; ++i) {
      if (!node.operands[i] || touches[i] == Touch::writes) continue;
      const Layout& now = state(node.operands[i].tensor).now;
      if (now.form != Form::split || !can_split_on(now.axis)) continue;
      is_decided = is_parameter(graph_.tensor(node.operands[i]));
      if (is_decided || !split.axis) split.axis = now.axis;
    }
    for (std::size_t i = 0; i < node.operands.size() && !split.axis; ++i) {
      if (!node.operands[i] || touches[i] == Touch::writes) continue;
      const TensorId id = node.operands[i].tensor;
      const Layout wanted = split_of(graph_.tensor(id));
      if (state(id).now.form != Form::partial_sum || wanted.form != Form::split || !can_split_on(wanted.axis))
        continue;
      const bool can_travel_on = legality.operands[i].is_linear && can_wait(node, id, legality, touches);
      if (!can_travel_on) split.axis = wanted.axis;
    }
    for (const BoundDimension& each : bound) {
      if (each.dimension.name != split.axis) continue;
      split.is_divided[each.operand] = true;
      split.variable = legality.variables[each.variable].name;
      split.length = each.dimension.length.count;
      split.sums = legality.variables[each.variable].splitting == Splitting::summed;
    }
    return split;
  }

  /// A partial sum that nobody else reads, and whose sum would be no smaller than what is made of it.
  bool can_wait(const Node& node, TensorId id, const Legality& legality, const Touches& touches) {
    const auto reads = [&](const Node& other) {
      bool found = false;
      for_each_operand(other, [&](const TensorView& view, Touch touch) {
        found |= view.tensor == id && touch != Touch::writes;
      });
      return found;
    };
    const auto behind = nodes_->begin() + static_cast<std::ptrdiff_t>(number_) + 1;
    if (id == handed_over_ || std::any_of(behind, nodes_->end(), reads)) return false;
    const auto count = [&](const Tensor& tensor) {
      return tensor.rows.extent().count * tensor.columns.extent().count;
    };
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i] == Touch::reads || !node.operands[i] || !legality.operands[i].is_linear) continue;
      if (count(graph_.tensor(node.operands[i])) > count(graph_.tensor(id))) return false;
    }
    return true;
  }

  void run_node(const Node& node) {
    const Legality legality = legality_of(*node.rule);
    const Touches touches = node.rule->touches();
    const NodeSplit split = find_split(node, legality, touches);
    bool makes_partial_sums = split.sums;
    NodeLayout layout{split.is_divided, std::vector<bool>(touches.size()), split.variable, split.length};
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const TensorView& view = node.operands[i];
      if (!view || touches[i] == Touch::writes) continue;
      if (touches[i] == Touch::updates && is_parameter(graph_.tensor(view))) continue;
      if (split.is_divided[i]) {
        bring(view.tensor, {Form::split, *split.axis});
      } else if (state(view.tensor).now.form == Form::partial_sum && legality.operands[i].is_linear &&
                 (!split.axis || split.sums) && can_wait(node, view.tensor, legality, touches)) {
        makes_partial_sums = true;
      } else {
        bring(view.tensor, {});
      }
      const State& brought = state(view.tensor);
      layout.is_once[i] = !split.is_divided[i] && legality.operands[i].is_linear &&
                          (brought.now.form == Form::whole || brought.is_gathered);
    }
    if (!makes_partial_sums) layout.is_once.assign(touches.size(), false);
    node_layouts_.push_back(std::move(layout));
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const TensorView& view = node.operands[i];
      if (!view || touches[i] == Touch::reads) continue;
      const bool is_partial_sum =
          makes_partial_sums && !split.is_divided[i] && (split.sums || legality.operands[i].is_linear);
      State& written = state(view.tensor);
      const bool was_partial_sum = is_parameter(graph_.tensor(view)) && written.now.form == Form::partial_sum;
      written = {split.is_divided[i]                 ? Layout{Form::split, *split.axis}
                 : is_partial_sum || was_partial_sum ? Layout{Form::partial_sum}
                                                     : Layout{}};
      // What is updated may be in another form by then than its maker left it in.
      if (touches[i] == Touch::writes || is_parameter(graph_.tensor(view)))
        nth(made_, view.tensor) = written.now;
    }
  }

  const UnitGraph& graph_;
  std::span<const AxisName> axes_;
  std::vector<State> states_;
  std::vector<Layout> made_;
  const std::vector<Node>* nodes_ = nullptr;
  TensorId handed_over_ = -1;
  std::size_t number_ = 0;
  std::vector<TensorExchange> exchanges_;
  std::vector<NodeLayout> node_layouts_;
};

}  // namespace

UnitLayout lay_out(const DerivedGraph& graph, std::span<const AxisName> axes, std::int64_t ranks,
                   std::span<const AxisName> padded) {
  const std::vector<Tensor>& tensors = graph.backward.tensors;
  UnitLayout layout;
  Propagation propagation(graph.backward, axes, ranks, padded);
  layout.forward_exchanges = propagation.run(graph.forward.nodes, graph.forward.output);
  layout.forward_nodes = propagation.nodes();
  const auto given = std::ranges::find(tensors, Region::input_gradient, &Tensor::region);
  const bool hands_over = given != tensors.end();
  layout.backward_exchanges = propagation.run(
      graph.backward.nodes, hands_over ? static_cast<TensorId>(given - tensors.begin()) : TensorId{-1});
  layout.backward_nodes = propagation.nodes();
  layout.tensors = propagation.made();
  return layout;
}

}  // namespace strata
