#include "engine/graph/within_documents.h"

#include <algorithm>
#include <optional>

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

}  // namespace

UnitGraph keep_within_documents(UnitGraph graph) {
  TensorView places;
  for (Node& node : graph.nodes) {
    const std::optional<int> operand = operand_of_places(node);
    if (!operand) continue;
    if (!places)
      places = {graph.add({"places", TensorType::int32, {}, token_axis(), data_region(kPlacesArray)})};
    node[*operand] = places;
  }
  return graph;
}

bool reads_places(const UnitGraph& graph) {
  return std::ranges::any_of(graph.tensors,
                             [](const Tensor& tensor) { return tensor.region == data_region(kPlacesArray); });
}

}  // namespace strata
