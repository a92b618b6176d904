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
#include "engine/graph/operators/magnitude.h"
#include "engine/graph/operators/norm.h"
#include "engine/graph/row_keys.h"
#include "engine/graph/split_product.h"

namespace strata {
namespace {

constexpr std::string_view kWeightEnding = ".weight", kDownEnding = ".lora_A.weight",
                           kUpEnding = ".lora_B.weight", kMagnitudeEnding = ".lora_magnitude_vector";

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
  Adapting(UnitBuilder::Built built, const std::vector<std::optional<LowRankForm>>& low_ranks,
           const AdapterForm& form)
      : unit_(std::move(built.unit)),
        graph_(std::move(built.graph)),
        low_ranks_(low_ranks),
        form_(form),
        next_site_(next_site(graph_)) {
    for (const TensorSpec& tensor : unit_.tensors) end_ = std::max(end_, tensor.offset + tensor.elements);
  }

  UnitBuilder::Built make() {
    for (const Node& node : std::exchange(graph_.nodes, {})) {
      const auto* rule = dynamic_cast<const LinearRule*>(node.rule.get());
      if (rule == nullptr) {
        graph_.nodes.push_back(node);
      } else if (form_.has_magnitudes) {
        for (const Node& part : parts_of(node, rule->order())) add_with_magnitude(part, rule->order());
      } else {
        add_with_adapters(node, rule->order());
      }
    }
    unit_.elements = align_up(end_, kFlatAlignment);
    return {std::move(unit_), std::move(graph_)};
  }

 private:
  /// Where an adapter stands: beside columns of what a product makes.
  struct Place {
    std::string layer;
    TensorView x;
    Axis inputs, outputs;
    TensorView out;
    LowRankForm form;
    Axis rank() const { return {"adapter_rank", form.rank}; }
  };
  struct LowRank {
    TensorView down, up;
  };

  void add_with_adapters(const Node& node, WeightOrder order) {
    graph_.nodes.push_back(node);
    for (const std::size_t number : adapted_in(node[LinearRule::weight])) {
      const Place place = place_of(node, order, number);
      add_update(place, add_low_rank(place));
    }
  }

  /// A product for each projection that has an adapter; the others stay together.
  std::vector<Node> parts_of(const Node& node, WeightOrder order) {
    const CoveredTensors covered = covered_tensors(unit_, graph_.tensor(node[LinearRule::weight]));
    const bool is_one = covered.end - covered.begin == 1;
    if (is_one || order == WeightOrder::conv1d || adapted_in(node[LinearRule::weight]).empty()) return {node};
    std::vector<Node> parts;
    const auto stay = [&](std::size_t a, std::size_t b) {
      return !low_ranks_[covered.begin + a] && !low_ranks_[covered.begin + b];
    };
    split_product(unit_, graph_, node, stay, parts);
    return parts;
  }

  /// The product and its update make a tensor of their own, which factors multiply.
  void add_with_magnitude(const Node& node, WeightOrder order) {
    const std::vector<std::size_t> adapted = adapted_in(node[LinearRule::weight]);
    if (adapted.empty()) return graph_.nodes.push_back(node);
    Place place = place_of(node, order, adapted.front());
    place.out = {graph_.add({place.layer + ".sum", TensorType::precision,
                             graph_.tensor(node[LinearRule::out]).rows, place.outputs})};
    const LowRank adapter = add_low_rank(place);
    const TensorView magnitude = vector(place.layer + std::string(kMagnitudeEnding), place.outputs,
                                        order == WeightOrder::linear ? Init::row_norms : Init::column_norms);
    const TensorView norms = row(place.layer + ".norms", place.outputs);
    const TensorView factors = row(place.layer + ".factors", place.outputs);
    const TensorView squares = row(place.layer + ".squares", place.outputs | place.outputs);
    const std::int64_t outputs = place.outputs.extent().count;
    const TensorView of_weight{squares.tensor, 0, outputs}, of_update{squares.tensor, outputs, outputs};
    add_squares(node[LinearRule::weight], order, of_weight);
    add_dots(place, node[LinearRule::weight], order, adapter, of_update);
    add(std::make_shared<MagnitudeFactorsRule>(), {of_weight, of_update, magnitude, norms, factors});
    add(node.rule, {place.x, node[LinearRule::weight], {}, {}, place.out});
    add_update(place, adapter);
    add(std::make_shared<ColumnScaleRule>(),
        {place.out, magnitude, norms, factors, node[LinearRule::bias], node[LinearRule::out]});
  }

  /// Each row of the weight, as torch's Linear stores it, has its squares added up.
  void add_squares(const TensorView& weight, WeightOrder order, const TensorView& squares) {
    if (order == WeightOrder::linear) {
      add(std::make_shared<RowSquaresRule>(), {weight, squares});
    } else {
      add(std::make_shared<ColumnSquaresRule>(), {weight, squares});
    }
  }

  void add_dots(const Place& place, const TensorView& weight, WeightOrder order, const LowRank& adapter,
                const TensorView& dots) {
    const auto& [down, up] = adapter;
    const TensorView gram{
        graph_.add({place.layer + ".gram", TensorType::precision, place.rank(), place.rank()})};
    const TensorView product{
        graph_.add({place.layer + ".product", TensorType::precision, place.outputs, place.rank()})};
    add(std::make_shared<LinearRule>(WeightOrder::linear), {down, down, {}, {}, gram});
    add(std::make_shared<MagnitudeDotsRule>(order, static_cast<float>(place.form.scale)),
        {weight, down, up, gram, product, dots});
  }

  /// Numbers of the tensors with adapters that a weight is made of.
  std::vector<std::size_t> adapted_in(const TensorView& weight) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < low_ranks_.size(); ++i)
      if (low_ranks_[i] && covers(graph_.tensor(weight), unit_.tensors[i])) found.push_back(i);
    return found;
  }

  /// `number`: of the tensor of the product's weight.
  Place place_of(const Node& node, WeightOrder order, std::size_t number) const {
    const TensorSpec& base = unit_.tensors[number];
    const Tensor& weight = graph_.tensor(node[LinearRule::weight]);
    const bool is_linear = order == WeightOrder::linear;
    const Axis &inputs = is_linear ? weight.columns : weight.rows,
               &outputs = is_linear ? weight.rows : weight.columns;
    const std::int64_t in_row = inputs.extent().count;
    const std::int64_t first = is_linear ? (base.offset - weight.offset) / in_row : 0;
    const std::int64_t count = base.elements / in_row;
    TensorView out = node[LinearRule::out];
    if (count != outputs.extent().count) {
      out.first += first;
      out.columns = count;
    }
    return {layer_of(base.hf_name), node[LinearRule::x], inputs, outputs.slice(first, count), out,
            *low_ranks_[number]};
  }

  LowRank add_low_rank(const Place& place) {
    const TensorView down =
        matrix(place.layer + std::string(kDownEnding), place.rank(), place.inputs, Init::kaiming_uniform);
    unit_.tensors.back().adapter_scale = place.form.scale;
    return {down, matrix(place.layer + std::string(kUpEnding), place.outputs, place.rank(), Init::zeros)};
  }

  void add_update(const Place& place, const LowRank& adapter) {
    TensorView low = low_rank(place, "");
    add(std::make_shared<LinearRule>(WeightOrder::linear), {dropped(place), adapter.down, {}, {}, low});
    if (place.form.scale != 1) {
      const TensorView scaled = low_rank(place, ".scaled");
      add(std::make_shared<ScaleRule>(static_cast<float>(place.form.scale)), {low, scaled});
      low = scaled;
    }
    add(std::make_shared<LinearUpdateRule>(), {low, adapter.up, place.out});
  }

  TensorView matrix(std::string name, const Axis& rows, const Axis& columns, Init init) {
    return parameter(std::move(name), {rows.extent().count, columns.extent().count}, rows, columns, init);
  }
  TensorView vector(std::string name, const Axis& columns, Init init) {
    return parameter(std::move(name), {columns.extent().count}, {}, columns, init);
  }

  TensorView parameter(std::string name, std::vector<std::int64_t> shape, const Axis& rows,
                       const Axis& columns, Init init) {
    TensorSpec spec;
    spec.hf_shape = std::move(shape);
    spec.elements = 1;
    for (const std::int64_t size : spec.hf_shape) spec.elements = checked_product(spec.elements, size);
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

  /// What A reads of the layer's input.
  TensorView dropped(const Place& place) {
    if (form_.dropout == 0) return place.x;
    const TensorView out{graph_.add(
        {place.layer + ".dropped", TensorType::precision, graph_.tensor(place.x).rows, place.inputs})};
    add(std::make_shared<DropoutRule>(form_.dropout, next_site_++), {place.x, {}, out});
    return out;
  }

  /// A matrix with a row for each of x's and a column for each of the rank.
  TensorView low_rank(const Place& place, const std::string& ending) {
    return {graph_.add(
        {place.layer + ending + ".lora", TensorType::precision, graph_.tensor(place.x).rows, place.rank()})};
  }
  TensorView row(std::string name, const Axis& columns) {
    return {graph_.add({std::move(name), TensorType::fp32, {}, columns})};
  }

  void add(std::shared_ptr<const Operator> rule, std::vector<TensorView> operands) {
    graph_.nodes.push_back({std::move(rule), std::move(operands)});
  }

  Unit unit_;
  UnitGraph graph_;
  const std::vector<std::optional<LowRankForm>>& low_ranks_;
  AdapterForm form_;
  std::uint32_t next_site_;
  std::int64_t end_ = 0;
};

}  // namespace

std::string layer_of(const std::string& weight) {
  return without(kWeightEnding, weight);
}

std::string adapted_layer(const std::string& adapter) {
  return without(kMagnitudeEnding, without(kUpEnding, without(kDownEnding, adapter)));
}

const TensorSpec& adapted_weight(const Unit& unit, const TensorSpec& adapter) {
  const std::string name = adapted_layer(adapter.hf_name) + std::string(kWeightEnding);
  return *std::ranges::find(unit.tensors, name, &TensorSpec::hf_name);
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
    layers.push_back({weight, &down, find(layer + std::string(kUpEnding)),
                      find(layer + std::string(kMagnitudeEnding)), order});
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

UnitBuilder::Built adapt(UnitBuilder::Built built, const std::vector<std::optional<LowRankForm>>& low_ranks,
                         const AdapterForm& form) {
  return Adapting(std::move(built), low_ranks, form).make();
}

}  // namespace strata
