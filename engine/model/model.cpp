#include "engine/model/model.h"

#include <utility>

#include "base/checked.h"
#include "engine/config/choices.h"
#include "engine/model/graph/graph_shape.h"

namespace strata {

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum = checked_sum(sum, unit.parameters);
  return sum;
}

std::int64_t Model::trained_parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (tensor.flat == Flat::trained) sum = checked_sum(sum, tensor.whole_elements());
  }
  return sum;
}

UpdateRules Model::rules() const {
  UpdateRules rules;
  for (const Unit& unit : units) {
    for (const TensorSpec& tensor : unit.tensors)
      if (tensor.flat == Flat::trained) ++rules[policies[tensor.policy].rule];
  }
  return rules;
}

Bytes max_chunk_bytes(DeviceKind kind) {
  return kind == DeviceKind::cuda ? 512 * MiB : GraphShape().max_chunk_bytes;
}

double forward_flops_per_token(const Model& model, std::int64_t sequence) {
  const GraphShape shape = {.microbatch = {1, sequence}};
  std::vector<double> of_kind;
  for (const UnitGraph& graph : model.graphs) of_kind.push_back(forward_flops(graph, shape));
  double sum = 0;
  for (const Unit& unit : model.units) sum += of_kind[unit.kind];
  return sum / static_cast<double>(sequence);
}

double backward_share_of_flops(const Model& model, std::int64_t sequence) {
  const GraphShape shape = {.microbatch = {1, sequence}};
  double forward = 0, backward = 0;
  std::vector<std::pair<double, double>> of_kind;
  for (const UnitGraph& graph : model.graphs)
    of_kind.emplace_back(forward_flops(graph, shape), backward_flops(graph, shape));
  for (const Unit& unit : model.units) {
    forward += of_kind[unit.kind].first;
    backward += of_kind[unit.kind].second;
  }
  return backward / forward;
}

double training_flops(const Model& model, const MicrobatchShape& microbatch, std::int64_t microbatches) {
  const std::int64_t sequence = microbatch.sequence;
  return (1 + backward_share_of_flops(model, sequence)) * forward_flops_per_token(model, sequence) *
         static_cast<double>(microbatch.tokens() * microbatches);
}

}  // namespace strata
