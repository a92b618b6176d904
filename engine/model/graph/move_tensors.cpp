#include "engine/model/graph/move_tensors.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/nth.h"
#include "engine/model/graph/split_product.h"

namespace strata {
namespace {

/// Tensors that the graph reads as one, and its operands that do.
struct ReadTogether {
  CoveredTensors tensors;
  std::vector<TensorId> readers;
};

std::vector<ReadTogether> read_together(const Unit& unit, const UnitGraph& graph) {
  std::map<std::int64_t, std::vector<TensorId>> read_at;
  for (const Node& node : graph.nodes) {
    for (const TensorView& view : node.operands) {
      if (view && graph.tensor(view).region == Region::parameter)
        read_at[graph.tensor(view).offset].push_back(view.tensor);
    }
  }
  std::vector<ReadTogether> result;
  for (auto& [offset, readers] : read_at) {
    const CoveredTensors tensors = covered_tensors(unit, graph.tensor(TensorView{readers.front()}));
    result.push_back({tensors, std::move(readers)});
  }
  return result;
}

}  // namespace

void move_tensors(UnitBuilder::Built& built, const std::function<Flat(std::size_t tensor)>& flat,
                  const std::function<int(std::size_t tensor)>& order) {
  auto& [unit, graph] = built;
  std::vector<ReadTogether> all = read_together(unit, graph);
  std::ranges::stable_sort(all, {}, [&](const ReadTogether& each) { return order(each.tensors.begin); });
  std::vector<TensorSpec> moved;
  std::array<std::int64_t, 2> ends = {};
  for (const auto& [tensors, readers] : all) {
    const Flat to = flat(tensors.begin);
    std::int64_t& end = nth(ends, to);
    end = align_up(end, kTensorAlignment);
    for (const TensorId id : readers) {
      Tensor& read = nth(graph.tensors, id);
      read.offset = end;
      if (to == Flat::frozen) read.region = Region::frozen;
    }
    for (std::size_t i = tensors.begin; i < tensors.end; ++i) {
      TensorSpec& spec = moved.emplace_back(unit.tensors[i]);
      spec.flat = to;
      spec.offset = end;
      end += spec.elements;
    }
  }
  unit.tensors = std::move(moved);
  unit.elements = align_up(ends[0], kFlatAlignment);
  unit.frozen_elements = align_up(ends[1], kFlatAlignment);
}

}  // namespace strata
