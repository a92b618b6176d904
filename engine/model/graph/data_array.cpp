#include "engine/model/graph/data_array.h"

#include <algorithm>
#include <stdexcept>

namespace strata {
namespace {

Extent elements_of(const Tensor& tensor) {
  return (Axis(tensor.rows) * tensor.columns).extent();
}

/// The number of parts of each data array: one more than the highest part that a tensor of any unit has.
std::vector<std::int64_t> parts_of_arrays(std::span<const UnitGraph> graphs) {
  std::vector<std::int64_t> parts(kMostDataArrays, 1);
  for (const UnitGraph& graph : graphs) {
    for (const Tensor& tensor : graph.tensors) {
      if (!is_data(tensor.region)) continue;
      std::int64_t& count = parts[data_number(tensor.region)];
      count = std::max(count, tensor.part + 1);
    }
  }
  return parts;
}

}  // namespace

std::vector<DataArray> data_of(std::span<const UnitGraph> graphs) {
  std::vector<DataArray> arrays;
  const std::vector<std::int64_t> parts = parts_of_arrays(graphs);
  for (const UnitGraph& graph : graphs) {
    for (const Tensor& tensor : graph.tensors) {
      if (!is_data(tensor.region)) continue;
      const std::size_t number = data_number(tensor.region);
      DataArray array{tensor.name, tensor.type, elements_of(tensor)};
      array.elements.count *= parts[number];
      if (arrays.size() <= number) arrays.resize(number + 1);
      DataArray& known = arrays[number];
      if (array.type == TensorType::precision || array.name.empty() ||
          (!known.name.empty() && known != array))
        throw std::logic_error("data array " + tensor.name + " is declared in two ways, or has no type");
      known = array;
    }
  }
  for (const DataArray& array : arrays)
    if (array.name.empty()) throw std::logic_error("a data array is missing between others");
  return arrays;
}

Extent loss_terms_of(std::span<const UnitGraph> graphs) {
  for (const UnitGraph& graph : graphs)
    for (const Tensor& tensor : graph.tensors)
      if (tensor.region == Region::losses) return elements_of(tensor);
  throw std::logic_error("no unit of the model has a loss");
}

}  // namespace strata
