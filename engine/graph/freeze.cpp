#include "engine/graph/freeze.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace strata {
namespace {

class Freezing {
 public:
  Freezing(UnitBuilder::Built built, const std::vector<bool>& frozen)
      : unit_(std::move(built.unit)), graph_(std::move(built.graph)), frozen_(frozen) {}

  UnitBuilder::Built make() {
    split_products();
    move();
    unit_.elements = align_up(end_[0], kFlatAlignment);
    unit_.frozen_elements = align_up(end_[1], kFlatAlignment);
    if (unit_.elements == 0) unit_.sparse_row = 0;
    return {std::move(unit_), std::move(graph_)};
  }

 private:
  /// The unit's tensors that a tensor of the graph covers, as numbers.
  struct Covered {
    std::size_t begin = 0, end = 0;
  };

  Tensor& tensor(TensorId id) { return graph_.tensors[static_cast<std::size_t>(id)]; }
  bool is_parameter(const TensorView& view) const {
    return view && graph_.tensor(view).region == Region::parameter;
  }

  Covered covered_by(const TensorView& view) const {
    const Tensor& parameter = graph_.tensor(view);
    const std::int64_t last =
        parameter.offset + parameter.rows.extent().count * parameter.columns.extent().count;
    const auto number = [&](std::int64_t offset) {
      return static_cast<std::size_t>(
          std::ranges::lower_bound(unit_.tensors, offset, {}, &TensorSpec::offset) - unit_.tensors.begin());
    };
    return {number(parameter.offset), number(last)};
  }

  /// The number of the first one that is not like those before it, or the end.
  std::size_t first_other(const Covered& covered) const {
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
    const auto* rule = dynamic_cast<const LinearRule*>(node.rule.get());
    if (rule == nullptr || rule->order() != WeightOrder::linear) refuse(node);
    const Covered weights = covered_by(node[LinearRule::weight]);
    const bool has_bias = static_cast<bool>(node[LinearRule::bias]);
    const std::size_t biases = has_bias ? covered_by(node[LinearRule::bias]).begin : 0;
    const auto is_like = [&](std::size_t a, std::size_t b) {
      return frozen_[weights.begin + a] == frozen_[weights.begin + b] &&
             (!has_bias || frozen_[biases + a] == frozen_[biases + b]);
    };
    const std::size_t projections = weights.end - weights.begin;
    std::int64_t column = 0;
    for (std::size_t first = 0, last = 0; first < projections; first = last) {
      while (last < projections && is_like(first, last)) ++last;
      Node part = node;
      const TensorView weight = part[LinearRule::weight] =
          rows_of(node[LinearRule::weight], weights.begin + first, weights.begin + last);
      const std::int64_t outputs = graph_.tensor(weight).rows.extent().count;
      if (has_bias) part[LinearRule::bias] = columns_of(node[LinearRule::bias], biases + first, outputs);
      part[LinearRule::out].first += column;
      part[LinearRule::out].columns = outputs;
      column += outputs;
      nodes.push_back(std::move(part));
    }
  }

  /// The rows of a weight that tensors [first, last) are, as a tensor of its own.
  TensorView rows_of(const TensorView& weight, std::size_t first, std::size_t last) {
    Tensor part = graph_.tensor(weight);
    const TensorSpec& end = unit_.tensors[last - 1];
    const std::int64_t begin = unit_.tensors[first].offset, columns = part.columns.extent().count;
    part.rows =
        part.rows.slice((begin - part.offset) / columns, (end.offset + end.elements - begin) / columns);
    part.offset = begin;
    return {graph_.add(std::move(part))};
  }
  TensorView columns_of(const TensorView& bias, std::size_t first, std::int64_t columns) {
    Tensor part = graph_.tensor(bias);
    const std::int64_t begin = unit_.tensors[first].offset;
    part.columns = part.columns.slice(begin - part.offset, columns);
    part.offset = begin;
    return {graph_.add(std::move(part))};
  }

  [[noreturn]] void refuse(const Node& node) const {
    for (const TensorView& view : node.operands) {
      if (!is_parameter(view)) continue;
      const Covered covered = covered_by(view);
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

  /// Gives each tensor its place. What the graph reads as one lies without gaps.
  void move() {
    std::map<std::int64_t, std::vector<TensorId>> read_at;
    for (const Node& node : graph_.nodes) {
      for (const TensorView& view : node.operands)
        if (is_parameter(view)) read_at[graph_.tensor(view).offset].push_back(view.tensor);
    }
    for (const auto& [offset, readers] : read_at) {
      const Covered covered = covered_by({readers.front()});
      const Flat flat = frozen_[covered.begin] ? Flat::frozen : Flat::trained;
      std::int64_t& end = end_[static_cast<std::size_t>(flat)];
      end = align_up(end, kTensorAlignment);
      const std::int64_t begin = end;
      for (std::size_t i = covered.begin; i < covered.end; ++i) {
        TensorSpec& spec = moved_.emplace_back(unit_.tensors[i]);
        spec.flat = flat;
        spec.offset = end;
        end += spec.elements;
      }
      for (const TensorId id : readers) {
        tensor(id).offset = begin;
        if (flat == Flat::frozen) tensor(id).region = Region::frozen;
      }
    }
    unit_.tensors = std::move(moved_);
  }

  Unit unit_;
  UnitGraph graph_;
  const std::vector<bool>& frozen_;
  std::vector<TensorSpec> moved_;
  std::array<std::int64_t, 2> end_ = {};
};

}  // namespace

UnitBuilder::Built freeze(UnitBuilder::Built built, const std::vector<bool>& frozen) {
  return Freezing(std::move(built), frozen).make();
}

}  // namespace strata
