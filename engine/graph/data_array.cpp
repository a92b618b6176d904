#include "engine/graph/data_array.h"

#include <stdexcept>

namespace strata {
namespace {

Extent elements_of(const Tensor& tensor) {
  return (Axis(tensor.rows) * tensor.columns).extent();
}

}  // namespace

std::vector<DataArray> data_of(std::span<const UnitGraph> graphs) {
  std::vector<DataArray> arrays;
  for (const UnitGraph& graph : graphs) {
    for (const Tensor& tensor : graph.tensors) {
      if (!is_data(tensor.region)) continue;
      const std::size_t number = data_number(tensor.region);
      const DataArray array{tensor.name, tensor.type, elements_of(tensor)};
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
