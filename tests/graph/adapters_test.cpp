// Units with low-rank adapters: which layers may have them, what they are, and what their passes do.
#include "engine/model/graph/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "engine/device/activation.h"
#include "engine/model/graph/derive.h"
#include "engine/model/graph/freeze.h"
#include "engine/model/graph/operators/dropout.h"
#include "engine/model/graph/operators/linear.h"
#include "engine/model/graph/operators/magnitude.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/graph/unit_passes.h"

namespace strata {
namespace {

using ::testing::ElementsAre;

Axis hidden() {
  return {"hidden", 8};
}

/// Two projections in one product, an activation, and a product whose sum with the input is the output.
UnitBuilder::Built mlp(WeightOrder order) {
  UnitBuilder builder("unit", "mlp.");
  const TensorView input = builder.input(hidden());
  const Axis inner("inner", 12);
  const TensorView gate_up =
      builder.linear(builder.norm(input, "norm", {}), {{"gate", inner}, {"up", inner}}, {.order = order});
  builder.output(builder.add(input, builder.linear(builder.activate_gate(gate_up, Activation::silu),
                                                   {{"down", hidden()}}, {.order = order})));
  return builder.finish();
}

/// By the names of layers.
using Layers = std::map<std::string, LowRankForm>;

UnitBuilder::Built adapted(const Layers& layers, bool freezes, const AdapterForm& form = {}) {
  UnitBuilder::Built built = mlp(WeightOrder::linear);
  std::vector<std::optional<LowRankForm>> low_ranks;
  for (const TensorSpec& tensor : built.unit.tensors) {
    const auto found = layers.find(layer_of(tensor.hf_name));
    low_ranks.push_back(found == layers.end() ? std::nullopt : std::optional(found->second));
  }
  built = adapt(std::move(built), low_ranks, form);
  if (!freezes) return built;
  std::vector<bool> frozen;
  for (const TensorSpec& tensor : built.unit.tensors) frozen.push_back(!tensor.is_adapter);
  return freeze(std::move(built), frozen, std::vector<int>(frozen.size()));
}

std::vector<std::string> names_of_nodes(const UnitGraph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(node.rule->name());
  return names;
}

// Invariant (Adapters.*): Adapters are those of PEFT and nothing else is trained.
TEST(Adapters, StandBesideWeightsOfLinearLayers) {
  const UnitBuilder::Built built = mlp(WeightOrder::linear);
  EXPECT_THAT(find_linear_weights(built), ElementsAre(false, true, true, true));
  EXPECT_EQ(layer_of(built.unit.tensors[1].hf_name), "mlp.gate");
}

TEST(Adapters, AddTwoTensorsToEachLayer) {
  const auto [unit, graph] = adapted({{"mlp.up", {2, 0.5}}, {"mlp.down", {2, 0.5}}}, false);
  std::vector<std::string> added;
  for (const TensorSpec& tensor : unit.tensors) {
    if (!tensor.is_adapter) continue;
    added.push_back(tensor.hf_name + " " + std::to_string(tensor.hf_shape[0]) + " x " +
                    std::to_string(tensor.hf_shape[1]));
    EXPECT_EQ(tensor.init, tensor.hf_name.ends_with("lora_A.weight") ? Init::kaiming_uniform : Init::zeros);
  }
  EXPECT_THAT(added, ElementsAre("mlp.up.lora_A.weight 2 x 8", "mlp.up.lora_B.weight 12 x 2",
                                 "mlp.down.lora_A.weight 2 x 12", "mlp.down.lora_B.weight 8 x 2"));
  EXPECT_EQ(unit.parameters, 8 + 3 * 8 * 12 + 2 * (8 + 12) + 2 * (12 + 8));
  EXPECT_THAT(names_of_nodes(graph),
              ElementsAre("norm", "linear", "linear", "scale", "linear_update", "gated_activation", "linear",
                          "linear", "scale", "linear_update", "add"));
  const TensorView& up = graph.nodes[4][LinearUpdateRule::out];
  EXPECT_EQ(up.first, 12);
  EXPECT_EQ(up.columns, 12);
  EXPECT_TRUE(graph.nodes[9][LinearUpdateRule::out].is_whole());
}

/// Projections of one product may have different ones.
TEST(Adapters, HaveRanksAndFactorsOfTheirOwn) {
  const auto [unit, graph] = adapted({{"mlp.gate", {3, 2}}, {"mlp.up", {5, 0.25}}}, false);
  std::map<std::string, std::pair<std::vector<std::int64_t>, double>> added;
  for (const TensorSpec& tensor : unit.tensors)
    if (tensor.is_adapter) added[tensor.hf_name] = {tensor.hf_shape, tensor.adapter_scale};
  const decltype(added) expected = {{"mlp.gate.lora_A.weight", {{3, 8}, 2}},
                                    {"mlp.gate.lora_B.weight", {{12, 3}, 0}},
                                    {"mlp.up.lora_A.weight", {{5, 8}, 0.25}},
                                    {"mlp.up.lora_B.weight", {{12, 5}, 0}}};
  EXPECT_EQ(added, expected);
  EXPECT_THAT(names_of_nodes(graph),
              ElementsAre("norm", "linear", "linear", "scale", "linear_update", "linear", "scale",
                          "linear_update", "gated_activation", "linear", "add"));
}

TEST(Adapters, AreNotScaledByOne) {
  EXPECT_THAT(names_of_nodes(adapted({{"mlp.down", {2}}}, false).graph),
              ElementsAre("norm", "linear", "gated_activation", "linear", "linear", "linear_update", "add"));
}

/// Gradients of a layer's input join within the products that make them.
TEST(Adapters, AloneHaveGradientsIfTheRestIsFrozen) {
  UnitBuilder::Built built = adapted({{"mlp.gate", {2}}, {"mlp.up", {2}}}, true);
  EXPECT_GT(built.unit.elements, 0);
  EXPECT_GT(built.unit.frozen_elements, 0);
  built.graph.wants_input_gradient = false;
  EXPECT_THAT(names_of_nodes(derive(built.graph).backward),
              ElementsAre("linear_input_gradient", "gated_activation_gradient",  //
                          "linear_weight_gradient", "linear_input_gradient", "linear_weight_gradient",
                          "linear_weight_gradient", "linear_input_gradient", "linear_weight_gradient"));
  built.graph.wants_input_gradient = true;
  const UnitGraph backward = derive(built.graph).backward;
  EXPECT_EQ(std::ranges::count(names_of_nodes(backward), "linear_input_gradient"), 6);
  EXPECT_EQ(std::ranges::count(names_of_nodes(backward), "add"), 0);
}

/// One of two projections in a product has magnitudes: it gets a product of its own.
TEST(Adapters, WithMagnitudesMultiplyTheSumOfProductAndUpdate) {
  const auto [unit, graph] = adapted({{"mlp.up", {2, 0.5}}}, false, {.has_magnitudes = true});
  const TensorSpec& magnitude = unit.tensors.back();
  EXPECT_EQ(magnitude.hf_name, "mlp.up.lora_magnitude_vector");
  EXPECT_THAT(magnitude.hf_shape, ElementsAre(12));
  EXPECT_EQ(magnitude.init, Init::row_norms);
  EXPECT_EQ(adapted_weight(unit, magnitude).hf_name, "mlp.up.weight");
  EXPECT_THAT(
      names_of_nodes(graph),
      ElementsAre("norm", "linear", "row_squares", "linear", "magnitude_dots", "magnitude_factors", "linear",
                  "linear", "scale", "linear_update", "column_scale", "gated_activation", "linear", "add"));
  const TensorView &gate = graph.nodes[1][LinearRule::out], &up = graph.nodes[10][ColumnScaleRule::out];
  EXPECT_EQ(gate, (TensorView{up.tensor, 0, 12}));
  EXPECT_EQ(up, (TensorView{up.tensor, 12, 12}));
}

/// The norms are constants: nothing goes back through what makes the factors.
TEST(Adapters, WithMagnitudesHaveGradientsOfTheScaledProductAlone) {
  UnitBuilder::Built built = adapted({{"mlp.down", {2}}}, true, {.has_magnitudes = true});
  built.graph.wants_input_gradient = false;
  EXPECT_THAT(names_of_nodes(derive(built.graph).backward),
              ElementsAre("magnitude_gradient", "column_scale", "linear_weight_gradient",
                          "linear_input_gradient", "linear_weight_gradient"));
}

/// Each step of what is saved makes passes of its own, and factors are small.
TEST(Adapters, WithMagnitudesSaveAllFactorsOrNone) {
  const UnitGraph graph =
      adapted({{"mlp.gate", {2}}, {"mlp.up", {3}}, {"mlp.down", {2}}}, true, {.has_magnitudes = true}).graph;
  const UnitPasses passes = make_passes(derive(graph), {.microbatch = {2, 8}});
  std::set<std::ptrdiff_t> counts;
  for (const UnitPasses::Level& level : passes.levels) {
    counts.insert(std::ranges::count_if(level.saved,
                                        [](const std::string& name) { return name.ends_with(".factors"); }));
  }
  EXPECT_THAT(counts, ElementsAre(0, 3));
}

/// What is dropped is another thing for each layer, and is dropped of the gradient again.
TEST(Adapters, ReadWhatDropoutLeaves) {
  UnitBuilder::Built built = adapted({{"mlp.gate", {2}}, {"mlp.up", {2}}}, true, {.dropout = 0.25});
  built.graph = give_row_keys(std::move(built.graph), row_keys_array(false));
  EXPECT_THAT(names_of_nodes(built.graph),
              ElementsAre("norm", "linear", "dropout", "linear", "linear_update", "dropout", "linear",
                          "linear_update", "gated_activation", "linear", "add"));
  EXPECT_EQ(built.graph.nodes[3][LinearRule::x], built.graph.nodes[2][DropoutRule::out]);
  EXPECT_EQ(built.graph.nodes[2][DropoutRule::keys], built.graph.nodes[5][DropoutRule::keys]);
  EXPECT_EQ(built.graph.tensor(built.graph.nodes[5][DropoutRule::keys]).region, data_region(2));
  EXPECT_EQ(next_site(built.graph), 2U);
  EXPECT_EQ(std::ranges::count(names_of_nodes(derive(built.graph).backward), "dropout"), 2);
}

TEST(Adapters, AreFoundBesideTheirWeights) {
  const UnitBuilder::Built built = adapted({{"mlp.gate", {2, 0.5}}, {"mlp.down", {2, 0.5}}}, true);
  std::vector<std::string> found;
  for (const AdaptedLayer& layer : adapted_layers(built.unit, built.graph)) {
    EXPECT_EQ(layer.order, WeightOrder::linear);
    found.push_back(layer.weight->hf_name + " " + layer.down->hf_name + " " + layer.up->hf_name);
  }
  EXPECT_THAT(found, ElementsAre("mlp.gate.weight mlp.gate.lora_A.weight mlp.gate.lora_B.weight",
                                 "mlp.down.weight mlp.down.lora_A.weight mlp.down.lora_B.weight"));
}

}  // namespace
}  // namespace strata
