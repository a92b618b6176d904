#include "engine/model/graph/adapters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/checked.h"
#include "engine/model/graph/low_rank_update.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/graph/split_product.h"

namespace strata {
namespace {

constexpr std::string_view kWeightEnding = ".weight", kDownEnding = ".lora_A.weight",
                           kUpEnding = ".lora_B.weight", kMagnitudeEnding = ".lora_magnitude_vector";

std::string without(std::string_view ending, const std::string& name) {
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

/// Whether the node is a product that may have adapters.
bool is_adaptable(const UnitGraph& graph, const Node& node) {
  const std::optional<ProductForm> product = node.rule->product_form();
  return product && graph.tensor(node[product->weight]).region == Region::parameter &&
         !decides(graph, node[product->out].tensor);
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
      const std::optional<ProductForm> product = node.rule->product_form();
      if (!product) {
        graph_.nodes.push_back(node);
      } else if (form_.has_magnitudes) {
        for (const Node& part : parts_of(node, *product)) add_with_magnitude(part, *product);
      } else {
        add_with_adapters(node, *product);
      }
    }
    unit_.elements = align_up(end_, kFlatAlignment);
    return {std::move(unit_), std::move(graph_)};
  }

 private:
  void add_with_adapters(const Node& node, const ProductForm& product) {
    graph_.nodes.push_back(node);
    for (const std::size_t number : adapted_in(node[product.weight])) {
      LowRankUpdate update = update_of(node, product, number);
      add_low_rank(update);
      node.rule->add_low_rank(node, update, graph_);
    }
  }

  /// A product for each projection that has an adapter; the others stay together.
  std::vector<Node> parts_of(const Node& node, const ProductForm& product) {
    const TensorView& weight = node[product.weight];
    const CoveredTensors covered = covered_tensors(unit_, graph_.tensor(weight));
    const bool is_one = covered.end - covered.begin == 1;
    if (is_one || product.order == WeightOrder::conv1d || adapted_in(weight).empty()) return {node};
    std::vector<Node> parts;
    const auto stay = [&](std::size_t a, std::size_t b) {
      return !low_ranks_[covered.begin + a] && !low_ranks_[covered.begin + b];
    };
    split_product(unit_, graph_, node, stay, parts);
    return parts;
  }

  /// The product and its update make a tensor of their own, which factors multiply.
  void add_with_magnitude(const Node& node, const ProductForm& product) {
    const std::vector<std::size_t> adapted = adapted_in(node[product.weight]);
    if (adapted.empty()) return graph_.nodes.push_back(node);
    LowRankUpdate update = update_of(node, product, adapted.front());
    update.out = {graph_.add({update.layer + ".sum", TensorType::precision,
                              graph_.tensor(node[product.out]).rows, update.outputs})};
    add_low_rank(update);
    update.magnitude = vector(update.layer + std::string(kMagnitudeEnding), update.outputs,
                              product.order == WeightOrder::linear ? Init::row_norms : Init::column_norms);
    node.rule->add_low_rank(node, update, graph_);
  }

  /// Numbers of the tensors with adapters that a weight is made of.
  std::vector<std::size_t> adapted_in(const TensorView& weight) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < low_ranks_.size(); ++i)
      if (low_ranks_[i] && covers(graph_.tensor(weight), unit_.tensors[i])) found.push_back(i);
    return found;
  }

  /// `number`: of the tensor of the product's weight.
  LowRankUpdate update_of(const Node& node, const ProductForm& product, std::size_t number) {
    const TensorSpec& base = unit_.tensors[number];
    const Tensor& weight = graph_.tensor(node[product.weight]);
    const bool is_linear = product.order == WeightOrder::linear;
    const Axis &inputs = is_linear ? weight.columns : weight.rows,
               &outputs = is_linear ? weight.rows : weight.columns;
    const std::int64_t in_row = inputs.extent().count;
    const std::int64_t first = is_linear ? (base.offset - weight.offset) / in_row : 0;
    const std::int64_t count = base.elements / in_row;
    TensorView out = node[product.out];
    if (count != outputs.extent().count) {
      out.first += first;
      out.columns = count;
    }
    const LowRankForm& form = *low_ranks_[number];
    return {.layer = layer_of(base.hf_name),
            .inputs = inputs,
            .outputs = outputs.slice(first, count),
            .rank = {"adapter_rank", form.rank},
            .out = out,
            .scale = form.scale,
            .dropout = form_.dropout,
            .site = next_site_++};
  }

  /// Parameters of the update.
  void add_low_rank(LowRankUpdate& update) {
    update.down =
        matrix(update.layer + std::string(kDownEnding), update.rank, update.inputs, Init::kaiming_uniform);
    unit_.tensors.back().adapter_scale = update.scale;
    update.up = matrix(update.layer + std::string(kUpEnding), update.outputs, update.rank, Init::zeros);
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
      const std::optional<ProductForm> product = each.rule->product_form();
      if (!product) return false;
      const Tensor& parameter = graph.tensor(each[product->weight]);
      return parameter.region == Region::frozen && covers(parameter, *weight);
    });
    const WeightOrder order = node->rule->product_form()->order;
    layers.push_back({weight, &down, find(layer + std::string(kUpEnding)),
                      find(layer + std::string(kMagnitudeEnding)), order});
  }
  return layers;
}

std::vector<bool> find_linear_weights(const UnitBuilder::Built& built) {
  std::vector<bool> found(built.unit.tensors.size());
  for (const Node& node : built.graph.nodes) {
    if (!is_adaptable(built.graph, node)) continue;
    const Tensor& weight = built.graph.tensor(node[node.rule->product_form()->weight]);
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
