#include "engine/model/graph/within_documents.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nth.h"
#include "base/rotary_row.h"

namespace strata {

UnitGraph give_places(UnitGraph graph, const SequenceForm& form) {
  std::array<TensorView, 2> parts;  // of the data array
  const auto part = [&](std::size_t number) {
    TensorView& view = parts[number];
    if (!view) {
      Tensor places = {"places", TensorType::int32, {}, token_axis(), data_region(kPlacesArray)};
      places.part = static_cast<std::int64_t>(number);
      view = {graph.add(std::move(places))};
    }
    return view;
  };
  for (Node& node : graph.nodes) {
    const TokenOperands operands = node.rule->token_operands(node);
    if (operands.places == kNoOperand) continue;
    const bool has_tables = operands.cosine != kNoOperand;
    if (!form.is_by_length() || !has_tables) {
      if (form.within_documents) node[operands.places] = part(0);
      continue;
    }
    node[operands.places] = part(form.within_documents ? 1 : 0);
    for (const int table : {operands.cosine, operands.sine})
      nth(graph.tensors, node[table].tensor).rows = {kTokens, per_position(kRotaryRowsOfPlace)};
  }
  return graph;
}

bool reads_places(const UnitGraph& graph) {
  return std::ranges::any_of(graph.tensors,
                             [](const Tensor& tensor) { return tensor.region == data_region(kPlacesArray); });
}

}  // namespace strata
