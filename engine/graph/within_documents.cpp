#include "engine/graph/within_documents.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/rotary_row.h"
#include "engine/graph/operators/attention.h"
#include "engine/graph/operators/embedding.h"
#include "engine/graph/operators/norm.h"

namespace strata {
namespace {

/// The number of the operand that says where tokens stand; nothing if the node does not ask.
std::optional<int> operand_of_places(const Node& node) {
  const Operator* rule = node.rule.get();
  if (dynamic_cast<const AttentionRule*>(rule) != nullptr) return AttentionRule::places;
  if (dynamic_cast<const RopeRule*>(rule) != nullptr) return RopeRule::places;
  if (dynamic_cast<const HeadNormRule*>(rule) != nullptr && node[HeadNormRule::cosine])
    return HeadNormRule::places;
  if (dynamic_cast<const EmbeddingRule*>(rule) != nullptr && node[EmbeddingRule::positions])
    return EmbeddingRule::places;
  return std::nullopt;
}

/// The tables that the node rotates by; nothing if it rotates nothing.
std::optional<std::array<TensorView, 2>> tables_of(const Node& node) {
  const Operator* rule = node.rule.get();
  if (dynamic_cast<const RopeRule*>(rule) != nullptr) return {{node[RopeRule::cosine], node[RopeRule::sine]}};
  if (dynamic_cast<const HeadNormRule*>(rule) != nullptr && node[HeadNormRule::cosine])
    return {{node[HeadNormRule::cosine], node[HeadNormRule::sine]}};
  return std::nullopt;
}

}  // namespace

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
    const std::optional<int> operand = operand_of_places(node);
    if (!operand) continue;
    const auto tables = tables_of(node);
    if (!form.is_by_length() || !tables) {
      if (form.within_documents) node[*operand] = part(0);
      continue;
    }
    node[*operand] = part(form.within_documents ? 1 : 0);
    for (const TensorView& table : *tables)
      graph.tensors[static_cast<std::size_t>(table.tensor)].rows = {kTokens,
                                                                    per_position(kRotaryRowsOfPlace)};
  }
  return graph;
}

bool reads_places(const UnitGraph& graph) {
  return std::ranges::any_of(graph.tensors,
                             [](const Tensor& tensor) { return tensor.region == data_region(kPlacesArray); });
}

}  // namespace strata
