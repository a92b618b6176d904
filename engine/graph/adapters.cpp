#include "engine/graph/adapters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/checked.h"
#include "engine/graph/operators/dropout.h"
#include "engine/graph/operators/elementwise.h"
#include "engine/graph/operators/experts.h"
#include "engine/graph/operators/linear.h"
#include "engine/graph/row_keys.h"

namespace strata {
namespace {

constexpr std::string_view kWeightEnding = ".weight", kDownEnding = ".lora_A.weight",
                           kUpEnding = ".lora_B.weight";

std::string without(std::string_view ending, const std::string& name) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

/// The product's rule, if it is one that may have adapters.
const LinearRule* adaptable(const UnitGraph& graph, const Node& node) {
  const auto* rule = dynamic_cast<const LinearRule*>(node.rule.get());
  if (rule == nullptr || graph.tensor(node[LinearRule::weight]).region != Region::parameter) return nullptr;
  return is_routed_by(graph, node[LinearRule::out]) ? nullptr : rule;
}

/// Whether the tensor is a part of the parameter.
bool covers(const Tensor& parameter, const TensorSpec& tensor) {
  const std::int64_t elements = parameter.rows.extent().count * parameter.columns.extent().count;
  return parameter.offset <= tensor.offset && tensor.offset < parameter.offset + elements;
}

class Adapting {
 public:
  Adapting(UnitBuilder::Built built, const std::vector<bool>& is_adapted, std::int64_t rank, double scale,
           double dropout)
      : unit_(std::move(built.unit)),
        graph_(std::move(built.graph)),
        is_adapted_(is_adapted),
        rank_("adapter_rank", rank),
        scale_(scale),
        dropout_(dropout),
        next_site_(next_site(graph_)) {
    for (const TensorSpec& tensor : unit_.tensors) end_ = std::max(end_, tensor.offset + tensor.elements);
  }

  UnitBuilder::Built make() {
    for (const Node& node : std::vector<Node>(std::exchange(graph_.nodes, {}))) {
      graph_.nodes.push_back(node);
      const auto* rule = dynamic_cast<const LinearRule*>(node.rule.get());
      for (std::size_t i = 0; i < is_adapted_.size() && rule != nullptr; ++i) {
        if (is_adapted_[i] && covers(graph_.tensor(node[LinearRule::weight]), unit_.tensors[i]))
          add_adapter(node, rule->order(), i);
      }
    }
    unit_.elements = align_up(end_, kFlatAlignment);
    return {std::move(unit_), std::move(graph_)};
  }

 private:
  void add_adapter(const Node& node, WeightOrder order, std::size_t number) {
    const TensorSpec base = unit_.tensors[number];  // a copy, as tensors are added
    const Tensor weight = graph_.tensor(node[LinearRule::weight]);
    const bool is_linear = order == WeightOrder::linear;
    const Axis inputs = is_linear ? weight.columns : weight.rows;
    const std::int64_t in_row = inputs.extent().count;
    const std::int64_t first = is_linear ? (base.offset - weight.offset) / in_row : 0;
    const std::int64_t count = base.elements / in_row;
    const Axis outputs = (is_linear ? weight.rows : weight.columns).slice(first, count);
    const std::string layer = layer_of(base.hf_name);
    const TensorView down = parameter(layer + std::string(kDownEnding), rank_, inputs, Init::kaiming_uniform);
    const TensorView up = parameter(layer + std::string(kUpEnding), outputs, rank_, Init::zeros);
    TensorView low = low_rank(layer, node[LinearRule::x]);
    add(std::make_shared<LinearRule>(WeightOrder::linear),
        {dropped(layer, node[LinearRule::x], inputs), down, {}, {}, low});
    if (scale_ != 1) {
      const TensorView scaled = low_rank(layer + ".scaled", node[LinearRule::x]);
      add(std::make_shared<ScaleRule>(static_cast<float>(scale_)), {low, scaled});
      low = scaled;
    }
    TensorView out = node[LinearRule::out];
    if (outputs.extent() != (is_linear ? weight.rows : weight.columns).extent()) {
      out.first += first;
      out.columns = count;
    }
    add(std::make_shared<LinearUpdateRule>(), {low, up, out});
  }

  TensorView parameter(std::string name, const Axis& rows, const Axis& columns, Init init) {
    TensorSpec spec;
    spec.hf_shape = {rows.extent().count, columns.extent().count};
    spec.elements = checked_product(spec.hf_shape[0], spec.hf_shape[1]);
    spec.offset = align_up(end_, kTensorAlignment);
    spec.init = init;
    spec.is_adapter = true;
    spec.hf_name = name;
    end_ = checked_sum(spec.offset, spec.elements);
    unit_.parameters += spec.elements;
    const TensorView view{
        graph_.add({std::move(name), TensorType::precision, rows, columns, Region::parameter, spec.offset})};
    unit_.tensors.push_back(std::move(spec));
    return view;
  }

  TensorView dropped(const std::string& layer, const TensorView& x, const Axis& columns) {
    if (dropout_ == 0) return x;
    const TensorView out{
        graph_.add({layer + ".dropped", TensorType::precision, graph_.tensor(x).rows, columns})};
    add(std::make_shared<DropoutRule>(dropout_, next_site_++), {x, {}, out});
    return out;
  }

  /// A matrix with a row for each of x's and a column for each of the rank.
  TensorView low_rank(const std::string& layer, const TensorView& x) {
    return {graph_.add({layer + ".lora", TensorType::precision, graph_.tensor(x).rows, rank_})};
  }

  void add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
    graph_.nodes.push_back({std::move(rule), std::move(operands)});
  }

  Unit unit_;
  UnitGraph graph_;
  const std::vector<bool>& is_adapted_;
  Axis rank_;
  double scale_, dropout_;
  std::uint32_t next_site_;
  std::int64_t end_ = 0;
};

}  // namespace

std::string layer_of(const std::string& weight) {
  return without(kWeightEnding, weight);
}

std::string adapted_layer(const std::string& adapter) {
  return without(kUpEnding, without(kDownEnding, adapter));
}

std::vector<AdaptedLayer> adapted_layers(const Unit& unit, const UnitGraph& graph) {
  const auto find = [&](const std::string& name) {
    const auto found = std::ranges::find(unit.tensors, name, &TensorSpec::hf_name);
    return found == unit.tensors.end() ? nullptr : &*found;
  };
  std::vector<AdaptedLayer> layers;
  for (const TensorSpec& down : unit.tensors) {
    if (!down.is_adapter || !down.hf_name.ends_with(kDownEnding)) continue;
    const std::string layer = adapted_layer(down.hf_name);
    const TensorSpec* weight = find(layer + std::string(kWeightEnding));
    const auto node = std::ranges::find_if(graph.nodes, [&](const Node& each) {
      if (dynamic_cast<const LinearRule*>(each.rule.get()) == nullptr) return false;
      const Tensor& parameter = graph.tensor(each[LinearRule::weight]);
      return parameter.region == Region::frozen && covers(parameter, *weight);
    });
    const WeightOrder order = dynamic_cast<const LinearRule&>(*node->rule).order();
    layers.push_back({weight, &down, find(layer + std::string(kUpEnding)), order});
  }
  return layers;
}

std::vector<bool> find_linear_weights(const UnitBuilder::Built& built) {
  std::vector<bool> found(built.unit.tensors.size());
  for (const Node& node : built.graph.nodes) {
    if (adaptable(built.graph, node) == nullptr) continue;
    const Tensor& weight = built.graph.tensor(node[LinearRule::weight]);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (covers(weight, built.unit.tensors[i])) found[i] = true;
  }
  return found;
}

UnitBuilder::Built adapt(UnitBuilder::Built built, const std::vector<bool>& is_adapted, std::int64_t rank,
                         double scale, double dropout) {
  return Adapting(std::move(built), is_adapted, rank, scale, dropout).make();
}

}  // namespace strata
