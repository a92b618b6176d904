#include "engine/model/graph/freeze.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "engine/model/graph/move_tensors.h"
#include "engine/model/graph/split_product.h"

namespace strata {
namespace {

class Freezing {
 public:
  Freezing(UnitBuilder::Built built, const std::vector<bool>& frozen, const std::vector<int>& order)
      : unit_(std::move(built.unit)), graph_(std::move(built.graph)), frozen_(frozen), order_(order) {}

  UnitBuilder::Built make() {
    split_products();
    UnitBuilder::Built built = {std::move(unit_), std::move(graph_)};
    move_tensors(
        built, [&](std::size_t tensor) { return frozen_[tensor] ? Flat::frozen : Flat::trained; },
        [&](std::size_t tensor) { return order_[tensor]; });
    if (built.unit.elements == 0) built.unit.sparse_row = 0;
    return built;
  }

 private:
  bool is_parameter(const TensorView& view) const {
    return view && graph_.tensor(view).region == Region::parameter;
  }

  CoveredTensors covered_by(const TensorView& view) const {
    return covered_tensors(unit_, graph_.tensor(view));
  }

  /// The number of the first one that is not like those before it, or the end.
  std::size_t first_other(const CoveredTensors& covered) const {
    std::size_t i = covered.begin;
    while (i < covered.end && frozen_[i] == frozen_[covered.begin]) ++i;
    return i;
  }

  void split_products() {
    std::vector<Node> nodes;
    for (const Node& node : graph_.nodes) {
      const bool is_apart = std::ranges::all_of(node.operands, [&](const TensorView& view) {
        return !is_parameter(view) || first_other(covered_by(view)) == covered_by(view).end;
      });
      if (is_apart) {
        nodes.push_back(node);
      } else {
        split(node, nodes);
      }
    }
    graph_.nodes = std::move(nodes);
  }

  /// A product for each run of projections that are frozen alike.
  void split(const Node& node, std::vector<Node>& nodes) {
    const std::optional<ProductForm> product = node.rule->product_form();
    if (!product || product->order != WeightOrder::linear) refuse(node);
    const std::size_t weights = covered_by(node[product->weight]).begin;
    const bool has_bias = static_cast<bool>(node[product->bias]);
    const std::size_t biases = has_bias ? covered_by(node[product->bias]).begin : 0;
    const auto is_like = [&](std::size_t a, std::size_t b) {
      return frozen_[weights + a] == frozen_[weights + b] &&
             (!has_bias || frozen_[biases + a] == frozen_[biases + b]);
    };
    split_product(unit_, graph_, node, is_like, nodes);
  }

  [[noreturn]] void refuse(const Node& node) const {
    for (const TensorView& view : node.operands) {
      if (!is_parameter(view)) continue;
      const CoveredTensors covered = covered_by(view);
      const std::size_t other = first_other(covered);
      if (other == covered.end) continue;
      const bool first_is_frozen = frozen_[covered.begin];
      throw ConfigError(fmt::format(
          "train.freeze: {} is frozen and {} is not, but they are computed together; freeze both or neither",
          unit_.tensors[first_is_frozen ? covered.begin : other].hf_name,
          unit_.tensors[first_is_frozen ? other : covered.begin].hf_name));
    }
    throw std::logic_error("nothing to refuse");
  }

  Unit unit_;
  UnitGraph graph_;
  const std::vector<bool>& frozen_;
  const std::vector<int>& order_;
};

}  // namespace

UnitBuilder::Built freeze(UnitBuilder::Built built, const std::vector<bool>& frozen,
                          const std::vector<int>& order) {
  return Freezing(std::move(built), frozen, order).make();
}

}  // namespace strata
