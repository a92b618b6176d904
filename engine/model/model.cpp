#include "engine/model/model.h"

#include <map>
#include <optional>

#include "base/checked.h"
#include "engine/graph/segment.h"
#include "engine/model/architecture_rules.h"

namespace strata {

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum = checked_sum(sum, unit.parameters);
  return sum;
}

Model build_model(const Architecture& architecture) {
  const ArchitectureRules& rules = rules_of(architecture);
  Model model;
  model.architecture = architecture;
  model.computes = make_unit_computes();
  model.units.reserve(static_cast<std::size_t>(architecture.layers + 2));
  if (rules.rotations != nullptr) model.rotations = rules.rotations(architecture);
  const auto add = [&](UnitBuilder builder, std::optional<std::size_t> kind) {
    UnitBuilder::Built built = builder.finish();
    built.unit.kind = kind.value_or(model.graphs.size());
    if (!kind) model.graphs.push_back(std::move(built.graph));
    model.units.push_back(std::move(built.unit));
  };
  add(rules.embedding(architecture), {});
  std::map<std::int64_t, std::size_t> kinds;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const std::int64_t kind = rules.kind_of_layer == nullptr ? 0 : rules.kind_of_layer(architecture, layer);
    const auto known = kinds.find(kind);
    const bool is_known = known != kinds.end();
    add(rules.block(architecture, layer), is_known ? std::optional(known->second) : std::nullopt);
    if (!is_known) kinds[kind] = model.units.back().kind;
  }
  add(rules.head(architecture, model.embedding()), {});
  return model;
}

double forward_flops_per_token(const Model& model, std::int64_t sequence) {
  const GraphShape shape = {.microbatch = {1, sequence}};
  std::vector<double> of_kind;
  for (const UnitGraph& graph : model.graphs) of_kind.push_back(forward_flops(graph, shape));
  double sum = 0;
  for (const Unit& unit : model.units) sum += of_kind[unit.kind];
  return sum / static_cast<double>(sequence);
}

double training_flops(const Model& model, const MicrobatchShape& microbatch, std::int64_t microbatches) {
  return 3 * forward_flops_per_token(model, microbatch.sequence) *
         static_cast<double>(microbatch.tokens() * microbatches);
}

}  // namespace strata
