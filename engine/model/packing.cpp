#include "engine/model/packing.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/precision.h"
#include "engine/config/choices.h"
#include "engine/device/state_calls.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/model.h"

namespace strata {
namespace {

bool rounds_as_weight(const Node& node, TensorId tensor) {
  const WeightForm form = node.rule->weight_form();
  if (form.operand == kNoOperand || form.rounding != Rounding::e4m3) return false;
  const TensorView& weight = node[form.operand];
  return has_once(node, tensor) && weight.tensor == tensor && weight.is_whole();
}

/// Matrices, in their order, that are rounded whole by every node that reads them.
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
  PackedAs as = PackedAs::exact;
  std::int64_t block = 0;

  Bytes bytes_of(std::int64_t count, DType precision) const {
    if (as == PackedAs::exact) return count * size_of(precision);
    return code_bytes(as == PackedAs::nf4 ? BlockFormat::nf4 : BlockFormat::int8, count);
  }
};

/// Elements that a block of a rank's part of a tensor has: as many as divide the whole's, so that each lies
/// in one of those, as one stretch.
std::int64_t block_of_part(const TensorSpec& tensor, std::int64_t block) {
  if (!tensor.is_split()) return block;
  const std::int64_t row = tensor.hf_shape.back();
  const bool has_whole_rows = tensor.columns.size() == 1 && tensor.columns.front() == Stretch{0, row};
  const auto divide = [&](const std::vector<Stretch>& stretches, std::int64_t elements) {
    for (const Stretch& stretch : stretches)
      block = std::gcd(std::gcd(block, stretch.first * elements), stretch.count * elements);
  };
  if (has_whole_rows) {
    divide(tensor.rows, row);
  } else {
    block = std::gcd(block, row);
    divide(tensor.columns, 1);
  }
  return block;
}

/// Those that become codes, in their order.
std::vector<Cut> packed_matrices(const Model& model, const Unit& unit, Flat flat, ParameterFormat format) {
  std::vector<Cut> matrices;
  if (has_blocks(format)) {
    const PackedAs as = format == ParameterFormat::int8 ? PackedAs::int8 : PackedAs::nf4;
    for (const TensorSpec& tensor : unit.tensors) {
      if (tensor.flat != flat || !tensor.is_linear) continue;
      matrices.push_back(
          {{tensor.offset, tensor.elements}, as, block_of_part(tensor, whole_block(tensor, format))});
    }
  } else {
    const Region region = flat == Flat::trained ? Region::parameter : Region::frozen;
    for (const Stretch& matrix : rounded_matrices(model.passes[unit.kind].forward, region))
      matrices.push_back({matrix, PackedAs::float8});
  }
  return matrices;
}

std::vector<Cut> cut(const std::vector<Cut>& matrices, std::int64_t elements) {
  std::vector<Cut> cuts;
  std::int64_t end = 0;
  const auto keep_until = [&](std::int64_t first) {
    if (first > end) cuts.push_back({{end, first - end}});
  };
  for (const Cut& matrix : matrices) {
    keep_until(matrix.elements.first);
    cuts.push_back(matrix);
    end = matrix.elements.first + matrix.elements.count;
  }
  keep_until(elements);
  return cuts;
}

}  // namespace

std::int64_t whole_block(const TensorSpec& tensor, ParameterFormat format) {
  return format == ParameterFormat::int8 ? tensor.hf_shape.back() : kNf4Block;
}

Packing packing_of(const Model& model, const Unit& unit, Flat flat, const PackingFormat& format,
                   std::int64_t part_elements, std::int64_t parts) {
  const std::vector<Cut> matrices = packed_matrices(model, unit, flat, format.as);
  if (matrices.empty()) return {};
  Packing packing{
      .part_elements = part_elements, .part_bytes = 0, .precision = format.precision, .parts = {}};
  const std::vector<Cut> cuts = cut(matrices, unit.elements_of(flat));
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<PackedStretch>& stretches = packing.parts.emplace_back();
    const std::int64_t begin = part * part_elements, end = begin + part_elements;
    Bytes bytes = 0;
    for (const Cut& each : cuts) {
      const std::int64_t first = std::max(begin, each.elements.first);
      const std::int64_t last = std::min(end, each.elements.first + each.elements.count);
      if (first >= last) continue;
      PackedStretch& stretch = stretches.emplace_back(
          PackedStretch{.first = first - begin, .count = last - first, .at = bytes, .as = each.as});
      bytes += align_up(each.bytes_of(stretch.count, format.precision), kPackedAlignment);
      if (!stretch.has_codes()) continue;
      stretch.scales_at = bytes;
      if (stretch.has_blocks()) {
        stretch.block = each.block;
        stretch.before = (first - each.elements.first) % each.block;
        bytes += align_up(stretch.blocks() * size_of(DType::fp32), kPackedAlignment);
      } else {
        bytes += kPackedAlignment;
      }
    }
    packing.part_bytes = std::max(packing.part_bytes, bytes);
  }
  return packing;
}

}  // namespace strata
