#include "engine/model/graph/share_sequences.h"

#include <iterator>

#include "engine/model/graph/within_documents.h"

namespace strata {
namespace {

/// Where tokens say where they stand, any of a sequence's positions may be in a rank's part of it.
void lengthen_tables(UnitGraph& graph, std::int64_t ranks) {
  if (!reads_places(graph)) return;
  for (Tensor& table : graph.tensors)
    if (table.region == Region::constants)
      table.rows = {kTokens, per_position(ranks * table.rows.extent().count)};
}

}  // namespace

DerivedGraph share_sequences(const DerivedGraph& graph, std::int64_t ranks) {
  DerivedGraph result = graph;
  for (UnitGraph* each : {&result.forward, &result.backward}) lengthen_tables(*each, ranks);
  UnitGraph &forward = result.forward, &backward = result.backward;
  std::vector<Node> behind_backward;
  const auto share = [&](UnitGraph& pass, const Node& node) {
    SequenceSharing sharing(pass, ranks, behind_backward);
    if (!node.rule->share_sequences(node, sharing)) pass.nodes.push_back(node);
  };
  forward.nodes.clear();
  for (const Node& node : graph.forward.nodes) share(forward, node);
  // The backward pass knows all tensors of the forward pass by their numbers, and its own behind them.
  const auto before = std::ssize(graph.forward.tensors), behind = std::ssize(forward.tensors);
  backward.tensors = forward.tensors;
  backward.tensors.insert(backward.tensors.end(), graph.backward.tensors.begin() + before,
                          graph.backward.tensors.end());
  backward.nodes.clear();
  for (Node node : graph.backward.nodes) {
    for (TensorView& view : node.operands)
      if (view.tensor >= before) view.tensor += static_cast<TensorId>(behind - before);
    share(backward, node);
  }
  backward.nodes.insert(backward.nodes.end(), behind_backward.begin(), behind_backward.end());
  return result;
}

}  // namespace strata
