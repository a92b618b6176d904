// Units with some frozen tensors: where these lie, and which gradients are made no more.
// Not in a unity build: it has many names in common with others.
#include "engine/model/graph/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "engine/device/attention_calls.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/fuse.h"
#include "engine/model/graph/unit_passes.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const GraphShape kShape = {.microbatch = {2, 8}};

Axis hidden() {
  return {"hidden", 16};
}

/// norm, one product for three projections, attention, and a product whose sum with the input is the output.
UnitBuilder::Built attention_unit(bool bias = false) {
  UnitBuilder builder("unit", "");
  const TensorView input = builder.input(hidden());
  const TensorView qkv = builder.linear(
      builder.norm(input, "norm", {}),
      {{"q", query_axis(2, 1, 8)}, {"k", key_axis(1, 8)}, {"v", key_axis(1, 8)}}, {.bias = bias});
  AttentionShape shape;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.head_dimension = 8;
  shape.scale = 1;
  const TensorView attended = builder.attention(builder.columns(qkv, 0, 16), builder.columns(qkv, 16, 8),
                                                builder.columns(qkv, 24, 8), shape);
  builder.output(builder.add(input, builder.linear(attended, {{"out", hidden()}})));
  return builder.finish();
}

UnitBuilder::Built frozen(UnitBuilder::Built built, const std::vector<std::string>& names) {
  std::vector<bool> flags;
  flags.reserve(built.unit.tensors.size());
  for (const TensorSpec& tensor : built.unit.tensors)
    flags.push_back(std::ranges::find(names, tensor.hf_name) != names.end());
  return freeze(std::move(built), flags, std::vector<int>(flags.size()));
}

std::vector<std::string> names_of(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const Node& node : nodes) names.emplace_back(node.rule->name());
  return names;
}

/// The nodes of the backward pass, without recomputation.
std::vector<std::string> derived(UnitGraph graph, bool wants_input_gradient) {
  graph.wants_input_gradient = wants_input_gradient;
  const UnitGraph fused = fuse(std::move(graph));
  return names_of(Derivation(fused).finish().nodes);
}

// Invariant (Freezing.*): Freezing changes nothing else.
TEST(Freezing, MovesTensorsToAFlatParameterOfTheirOwn) {
  const auto [unit, graph] = frozen(attention_unit(), {"norm.weight", "out.weight"});
  std::vector<std::pair<Flat, std::int64_t>> places;
  for (const TensorSpec& tensor : unit.tensors) places.emplace_back(tensor.flat, tensor.offset);
  EXPECT_THAT(places, ElementsAre(std::pair(Flat::frozen, 0), std::pair(Flat::trained, 0),
                                  std::pair(Flat::trained, 256), std::pair(Flat::trained, 384),
                                  std::pair(Flat::frozen, 64)));
  EXPECT_EQ(unit.elements, 512);
  EXPECT_EQ(unit.frozen_elements, 512);
  EXPECT_EQ(unit.parameters, 16 + 32 * 16 + 16 * 16);
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name == "out") {
      EXPECT_EQ(tensor.region, Region::frozen);
      EXPECT_EQ(tensor.offset, 64);
      break;
    }
  }
}

TEST(Freezing, MakesNoGradientThatNobodyWants) {
  EXPECT_THAT(derived(frozen(attention_unit(), {"norm.weight", "out.weight"}).graph, true),
              ElementsAre("linear_input_gradient", "attention_gradient", "linear_weight_gradient",
                          "linear_input_gradient", "norm_gradient"));
  EXPECT_THAT(derived(frozen(attention_unit(), {"norm.weight", "out.weight"}).graph, false),
              ElementsAre("linear_input_gradient", "attention_gradient", "linear_weight_gradient"));
  EXPECT_THAT(
      derived(frozen(attention_unit(), {"norm.weight", "q.weight", "k.weight", "v.weight"}).graph, false),
      ElementsAre("linear_weight_gradient"));
  EXPECT_THAT(
      derived(frozen(attention_unit(), {"q.weight", "k.weight", "v.weight", "out.weight"}).graph, false),
      ElementsAre("linear_input_gradient", "attention_gradient", "linear_input_gradient", "norm_gradient"));
}

TEST(Freezing, LeavesNoBackwardPassWhereNothingIsTrained) {
  auto [unit, graph] = frozen(attention_unit(true), {"norm.weight", "q.weight", "k.weight", "v.weight",
                                                     "q.bias", "k.bias", "v.bias", "out.weight"});
  EXPECT_EQ(unit.elements, 0);
  EXPECT_THAT(derived(graph, false), IsEmpty());
  graph.wants_input_gradient = false;
  const UnitPasses passes = make_passes(derive(graph), kShape);
  EXPECT_EQ(passes.levels.size(), 1U);
  EXPECT_TRUE(passes.levels[0].backward.is_empty());
  EXPECT_EQ(backward_flops(graph, kShape), 0);
}

TEST(Freezing, AddsToNoGradientOfAFrozenTensor) {
  const auto [unit, graph] = frozen(attention_unit(), {"norm.weight", "out.weight"});
  for (const UnitPasses::Level& level : make_passes(derive(graph), kShape).levels) {
    EXPECT_TRUE(level.backward.touches(Region::gradient));
    EXPECT_TRUE(level.backward.touches(Region::frozen));
    EXPECT_TRUE(level.forward.touches(Region::frozen));
  }
}

TEST(Freezing, SplitsAProductOfWhichSomeProjectionsAreFrozen) {
  const auto built = frozen(attention_unit(true), {"k.weight", "v.bias"});
  const UnitGraph& graph = built.graph;
  EXPECT_THAT(names_of(graph.nodes),
              ElementsAre("norm", "linear", "linear", "linear", "attention", "linear", "add"));
  std::vector<std::pair<std::int64_t, std::int64_t>> columns;
  for (int i = 1; i < 4; ++i) {
    const TensorView& out = graph.nodes[static_cast<std::size_t>(i)][LinearRule::out];
    columns.emplace_back(out.first, out.columns);
  }
  EXPECT_THAT(columns, ElementsAre(std::pair(0, 16), std::pair(16, 8), std::pair(24, 8)));
  const auto region = [&](int node, int operand) {
    return graph.tensor(graph.nodes[static_cast<std::size_t>(node)][operand]).region;
  };
  EXPECT_EQ(region(1, LinearRule::weight), Region::parameter);
  EXPECT_EQ(region(2, LinearRule::weight), Region::frozen);
  EXPECT_EQ(region(2, LinearRule::bias), Region::parameter);
  EXPECT_EQ(region(3, LinearRule::weight), Region::parameter);
  EXPECT_EQ(region(3, LinearRule::bias), Region::frozen);
  // Neighbours that are frozen alike stay one product.
  EXPECT_THAT(names_of(frozen(attention_unit(), {"q.weight"}).graph.nodes),
              ElementsAre("norm", "linear", "linear", "attention", "linear", "add"));
}

TEST(Freezing, RefusesToTakeExpertsApart) {
  UnitBuilder builder("unit", "");
  const TensorView input = builder.input(hidden());
  builder.output(builder.experts(input, {.experts = 4,
                                         .top_k = 2,
                                         .intermediate = 8,
                                         .router = "router",
                                         .gate = "{}.gate",
                                         .up = "{}.up",
                                         .down = "{}.down"}));
  const UnitBuilder::Built built = builder.finish();
  try {
    frozen(built, {"2.up.weight"});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.freeze: 2.up.weight is frozen and 0.gate.weight is not"));
  }
  const std::vector<std::string> downs = {"0.down.weight", "1.down.weight", "2.down.weight", "3.down.weight"};
  EXPECT_EQ(frozen(built, downs).unit.frozen_elements, 4 * 16 * 8);
}

TEST(Freezing, CountsTheWorkThatIsLeft) {
  const UnitGraph whole = attention_unit().graph;
  EXPECT_EQ(backward_flops(whole, kShape), 2 * forward_flops(whole, kShape));
  const UnitGraph part = frozen(attention_unit(), {"out.weight"}).graph;
  EXPECT_EQ(backward_flops(whole, kShape) - backward_flops(part, kShape), 2.0 * 16 * 16 * 16);
}

}  // namespace
}  // namespace strata
