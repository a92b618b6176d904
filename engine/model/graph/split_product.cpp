#include "engine/model/graph/split_product.h"

#include <algorithm>
#include <utility>

namespace strata {
namespace {

/// The rows of a weight that tensors [first, last) are, as a tensor of its own.
TensorView rows_of(const Unit& unit, UnitGraph& graph, const TensorView& weight, std::size_t first,
                   std::size_t last) {
  Tensor part = graph.tensor(weight);
  const TensorSpec& end = unit.tensors[last - 1];
  const std::int64_t begin = unit.tensors[first].offset, columns = part.columns.extent().count;
  part.rows = part.rows.slice((begin - part.offset) / columns, (end.offset + end.elements - begin) / columns);
  part.offset = begin;
  return {graph.add(std::move(part))};
}

/// `columns` columns of a bias, from those of the tensor `first` on, as a tensor of their own.
TensorView columns_of(const Unit& unit, UnitGraph& graph, const TensorView& bias, std::size_t first,
                      std::int64_t columns) {
  Tensor part = graph.tensor(bias);
  const std::int64_t begin = unit.tensors[first].offset;
  part.columns = part.columns.slice(begin - part.offset, columns);
  part.offset = begin;
  return {graph.add(std::move(part))};
}

}  // namespace

CoveredTensors covered_tensors(const Unit& unit, const Tensor& parameter) {
  const std::int64_t last =
      parameter.offset + parameter.rows.extent().count * parameter.columns.extent().count;
  const auto number = [&](std::int64_t offset) {
    return static_cast<std::size_t>(std::ranges::lower_bound(unit.tensors, offset, {}, &TensorSpec::offset) -
                                    unit.tensors.begin());
  };
  return {number(parameter.offset), number(last)};
}

void split_product(const Unit& unit, UnitGraph& graph, const Node& product,
                   const std::function<bool(std::size_t a, std::size_t b)>& stay, std::vector<Node>& nodes) {
  const ProductForm form = product.rule->product_form().value();
  const CoveredTensors weights = covered_tensors(unit, graph.tensor(product[form.weight]));
  const bool has_bias = static_cast<bool>(product[form.bias]);
  const std::size_t biases = has_bias ? covered_tensors(unit, graph.tensor(product[form.bias])).begin : 0;
  const std::size_t projections = weights.end - weights.begin;
  std::int64_t column = 0;
  for (std::size_t first = 0, last = 0; first < projections; first = last) {
    do {
      ++last;
    } while (last < projections && stay(first, last));
    Node part = product;
    const TensorView weight = part[form.weight] =
        rows_of(unit, graph, product[form.weight], weights.begin + first, weights.begin + last);
    const std::int64_t outputs = graph.tensor(weight).rows.extent().count;
    if (has_bias) part[form.bias] = columns_of(unit, graph, product[form.bias], biases + first, outputs);
    part[form.out].first += column;
    part[form.out].columns = outputs;
    column += outputs;
    nodes.push_back(std::move(part));
  }
}

}  // namespace strata
