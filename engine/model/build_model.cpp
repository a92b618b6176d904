#include "engine/model/build_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/precision.h"
#include "engine/model/adapter_targets.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/factors.h"
#include "engine/model/freeze_patterns.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/graph/derive.h"
#include "engine/model/graph/freeze.h"
#include "engine/model/graph/move_tensors.h"
#include "engine/model/graph/round_products.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/graph/within_documents.h"
#include "engine/model/model.h"
#include "engine/model/tensor_policies.h"

namespace strata {
namespace {

/// Those that are no adapters', one entry for each of the unit's.
std::vector<bool> find_own_tensors(const Unit& unit) {
  std::vector<bool> own;
  for (const TensorSpec& tensor : unit.tensors) own.push_back(!tensor.is_adapter);
  return own;
}

/// By tensor, the form of the adapter beside it, if there is one.
std::vector<std::optional<LowRankForm>> find_low_ranks(const Unit& unit) {
  std::map<std::string, LowRankForm> layers;
  for (const TensorSpec& tensor : unit.tensors)
    if (tensor.adapter_scale != 0)
      layers[adapted_layer(tensor.hf_name)] = {tensor.hf_shape.front(), tensor.adapter_scale};
  std::vector<std::optional<LowRankForm>> low_ranks(unit.tensors.size());
  for (std::size_t i = 0; i < low_ranks.size(); ++i)
    if (const auto found = layers.find(layer_of(unit.tensors[i].hf_name)); found != layers.end())
      low_ranks[i] = found->second;
  return low_ranks;
}

void mark_linear_weights(UnitBuilder::Built& built) {
  const std::vector<bool> is_linear = find_linear_weights(built);
  for (std::size_t i = 0; i < is_linear.size(); ++i) built.unit.tensors[i].is_linear = is_linear[i];
}

/// By tensor, the number of its rule among those of the unit's trained tensors, in the order in which they
/// first stand there.
std::vector<int> order_by_rule(const Unit& unit, const std::vector<bool>& frozen,
                               const std::vector<UpdatePolicy>& policies) {
  std::vector<UpdateRule> rules;
  std::vector<int> order;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    const UpdateRule rule = policies[unit.tensors[i].policy].rule;
    if (!frozen[i] && std::ranges::find(rules, rule) == rules.end()) rules.push_back(rule);
    order.push_back(frozen[i] ? 0 : static_cast<int>(std::ranges::find(rules, rule) - rules.begin()));
  }
  return order;
}

}  // namespace

Model build_model(const Architecture& architecture, const ModelChanges& changes) {
  const ArchitectureRules& rules = rules_of(architecture);
  Model model;
  model.architecture = architecture;
  model.freeze = changes.freeze;
  model.adapter = changes.adapter;
  model.rounding = changes.rounding;
  model.form = changes.form;
  model.averages = changes.averages;
  model.units.reserve(static_cast<std::size_t>(architecture.layers + 2));
  model.rotations = rotations_of(architecture);
  FreezePatterns patterns(changes.freeze);
  AdapterTargets targets(changes.adapter);
  TensorPolicies policies(changes.optimizer);
  bool trains_before = false;
  // Layers of one number are alike in what they compute, and of those some may train more than others, or
  // have other adapters.
  using Kind = std::tuple<std::int64_t, std::vector<bool>, std::vector<std::optional<LowRankForm>>,
                          std::vector<int>, bool>;
  std::map<Kind, std::size_t> kinds;
  const auto add = [&](std::int64_t number, UnitBuilder builder) {
    UnitBuilder::Built built = builder.finish();
    if (changes.rounding != Rounding::none && number >= 0)
      built.graph = round_products(std::move(built.graph), changes.rounding);
    if (number >= 0) mark_linear_weights(built);
    if (model.adapts() && number >= 0) built = targets.adapt(std::move(built));
    built.graph = give_places(std::move(built.graph), changes.form);
    built.graph = give_row_keys(std::move(built.graph), row_keys_array(changes.form.has_places()));
    const std::vector<bool> frozen =
        model.adapts() ? find_own_tensors(built.unit) : patterns.find_frozen(built.unit);
    const auto low_ranks = find_low_ranks(built.unit);
    policies.decide(built.unit, frozen, number >= 0);
    // Tensors of one rule stand together, so that each moment covers one stretch of the unit.
    const std::vector<int> order = order_by_rule(built.unit, frozen, policies.policies());
    if (std::ranges::find(frozen, true) != frozen.end()) {
      built = strata::freeze(std::move(built), frozen, order);
    } else if (std::ranges::any_of(order, [](int number) { return number > 0; })) {
      move_tensors(
          built, [](std::size_t) { return Flat::trained; },
          [&](std::size_t tensor) { return order[tensor]; });
    }
    built.graph.wants_input_gradient = trains_before;
    trains_before |= built.unit.elements > 0;
    const auto [kind, is_new] = kinds.try_emplace(
        {number, frozen, low_ranks, order, built.graph.wants_input_gradient}, model.graphs.size());
    built.unit.kind = kind->second;
    if (is_new) model.graphs.push_back(std::move(built.graph));
    model.units.push_back(std::move(built.unit));
  };
  constexpr std::int64_t kEmbedding = -1, kHead = -2;
  add(kEmbedding, rules.embedding(architecture));
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    add(rules.kind_of_layer == nullptr ? 0 : rules.kind_of_layer(architecture, layer),
        rules.block(architecture, layer));
  }
  add(kHead, rules.head(architecture, model.embedding()));
  if (model.adapts()) {
    targets.check();
  } else {
    patterns.check(model);
  }
  policies.check(model);
  model.policies = policies.policies();
  for (Unit& unit : model.units) find_factors(unit, model.policies);
  for (const UnitGraph& graph : model.graphs) model.passes.push_back(derive(graph));
  return model;
}

}  // namespace strata
