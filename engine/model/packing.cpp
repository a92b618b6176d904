#include "engine/model/packing.h"

#include <algorithm>
#include <vector>

#include "engine/device/kernel_call.h"
#include "engine/graph/operators/activation.h"
#include "engine/graph/operators/linear.h"

namespace strata {
namespace {

const LinearRule* linear_of(const Operator* rule) {
  static_assert(int{LinearActivationRule::weight} == int{LinearRule::weight});
  if (const auto* fused = dynamic_cast<const LinearActivationRule*>(rule)) return &fused->linear();
  return dynamic_cast<const LinearRule*>(rule);
}

bool rounds_as_weight(const Node& node, TensorId tensor) {
  const LinearRule* linear = linear_of(node.rule.get());
  if (linear == nullptr || linear->rounding() != Rounding::e4m3) return false;
  const TensorView& weight = node[LinearRule::weight];
  return has_once(node, tensor) && weight.tensor == tensor && weight.is_whole();
}

/// Matrices of which all nodes that read them round all of them, in their order.
std::vector<Stretch> rounded_matrices(const UnitGraph& graph, Region region) {
  std::vector<Stretch> matrices;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.region != region) continue;
    const auto id = static_cast<TensorId>(t);
    bool is_read = false, is_rounded = true;
    for (const Node& node : graph.nodes) {
      if (std::ranges::find(node.operands, id, &TensorView::tensor) == node.operands.end()) continue;
      is_read = true;
      is_rounded &= rounds_as_weight(node, id);
    }
    const MicrobatchShape any;  // parameters have one size
    const std::int64_t elements = tensor.rows.in(any)*tensor.columns.in(any);
    if (is_read && is_rounded && elements % kCodesAtOnce == 0) matrices.push_back({tensor.offset, elements});
  }
  std::ranges::sort(matrices, {}, &Stretch::first);
  return matrices;
}

/// The stretches of a flat parameter, whole matrices and what lies between them.
struct Cut {
  Stretch elements;
  bool has_codes = false;
};

std::vector<Cut> cut(const std::vector<Stretch>& matrices, std::int64_t elements) {
  std::vector<Cut> cuts;
  std::int64_t end = 0;
  const auto keep_until = [&](std::int64_t first) {
    if (first > end) cuts.push_back({{end, first - end}});
  };
  for (const Stretch& matrix : matrices) {
    keep_until(matrix.first);
    cuts.push_back({matrix, true});
    end = matrix.first + matrix.count;
  }
  keep_until(elements);
  return cuts;
}

}  // namespace

Packing packing_of(const Model& model, const Unit& unit, Flat flat, std::int64_t part_elements,
                   std::int64_t parts) {
  const std::int64_t elements = unit.elements_of(flat);
  const Region region = flat == Flat::trained ? Region::parameter : Region::frozen;
  const std::vector<Stretch> matrices = rounded_matrices(model.passes[unit.kind].forward, region);
  if (matrices.empty()) return {};
  Packing packing{.part_elements = part_elements, .part_bytes = 0, .parts = {}};
  const std::vector<Cut> cuts = cut(matrices, elements);
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<PackedStretch>& stretches = packing.parts.emplace_back();
    const std::int64_t begin = part * part_elements, end = begin + part_elements;
    Bytes bytes = 0;
    for (const Cut& each : cuts) {
      const std::int64_t first = std::max(begin, each.elements.first);
      const std::int64_t last = std::min(end, each.elements.first + each.elements.count);
      if (first >= last) continue;
      stretches.push_back({.first = first - begin, .count = last - first, .at = bytes});
      bytes += align_up((last - first) * (each.has_codes ? 1 : size_of(DType::bf16)), kPackedAlignment);
      if (!each.has_codes) continue;
      stretches.back().factors_at = bytes;
      bytes += kPackedAlignment;
    }
    packing.part_bytes = std::max(packing.part_bytes, bytes);
  }
  return packing;
}

}  // namespace strata
