#include "engine/model/graph/graph_shape.h"

#include <algorithm>

#include "base/nth.h"
#include "engine/model/graph/derivation.h"

namespace strata {
namespace {

constexpr std::int64_t kChunkRowMultiple = 64;
constexpr std::int64_t kChunkColumnMultiple = 64;

DType dtype_of(TensorType type, DType precision) {
  return type == TensorType::precision ? precision : DType::fp32;
}

double flops_of(const Node& node, const UnitGraph& graph, const GraphShape& shape) {
  std::vector<Matrix> sizes;
  for (const TensorView& view : node.operands) {
    sizes.push_back(view ? size_of(graph.tensor(view), shape) : Matrix());
    if (!view.is_whole()) sizes.back().columns = view.columns;
  }
  return node.rule->flops(Operands(sizes, shape.microbatch));
}

}  // namespace

Matrix size_of(const Tensor& tensor, const GraphShape& shape) {
  return {nullptr, dtype_of(tensor.type, shape.precision), tensor.rows.in(shape.microbatch),
          tensor.columns.in(shape.microbatch)};
}

Bytes bytes_of(const Matrix& size) {
  return checked_product(size.rows, size.stride, size_of(size.dtype));
}

std::int64_t chunk_stride(std::int64_t columns) {
  return align_up(columns, kChunkColumnMultiple);
}

std::int64_t chunk_rows(const UnitGraph& graph, const GraphShape& shape) {
  std::int64_t smallest = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (!tensor.in_chunks) continue;
    const Matrix size = size_of(tensor, shape);
    const Bytes row = chunk_stride(size.columns) * size_of(size.dtype);
    const std::int64_t fitting = shape.max_chunk_bytes / row / kChunkRowMultiple * kChunkRowMultiple;
    const std::int64_t rows = std::min(shape.microbatch.tokens(), std::max(kChunkRowMultiple, fitting));
    smallest = smallest == 0 ? rows : std::min(smallest, rows);
  }
  return smallest;
}

double forward_flops(const UnitGraph& graph, const GraphShape& shape) {
  double sum = 0;
  for (const Node& node : graph.nodes) sum += flops_of(node, graph, shape);
  return sum;
}

double backward_flops(const UnitGraph& graph, const GraphShape& shape) {
  const std::vector<bool> wanted = wanted_tensors(graph);
  double sum = 0;
  for (const Node& node : graph.nodes) {
    bool has_parameters = false, wants_parameters = false, wants_others = false;
    for_each_operand(node, [&](const TensorView& view, Touch touch) {
      if (touch == Touch::writes) return;
      const bool is_parameter = is_of_parameters(graph.tensor(view).region);
      has_parameters |= is_parameter;
      (is_parameter ? wants_parameters : wants_others) |= nth(wanted, view.tensor);
    });
    const int gradients = has_parameters ? int{wants_parameters} + int{wants_others} : 2 * int{wants_others};
    sum += gradients * flops_of(node, graph, shape);
  }
  return sum;
}

}  // namespace strata
