// Which products a precision rounds the operands of.
#include "engine/model/graph/round_products.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/precision.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"
#include "tests/model/tiny_model.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Names of both passes' nodes that multiply with weights.
std::set<std::string> products_of(const Model& model, const Unit& unit) {
  std::set<std::string> names;
  const DerivedGraph& passes = model.passes[unit.kind];
  for (const UnitGraph* graph : {&passes.forward, &passes.backward}) {
    for (const Node& node : graph->nodes) {
      if (node.rule->name().starts_with("linear")) names.emplace(node.rule->name());
    }
  }
  return names;
}

// Invariant (RoundedProducts.*): FP8 rounds alike everywhere.
TEST(RoundedProducts, AreThoseOfTheLinearLayersOfBlocks) {
  for (const auto& [name, architecture] : test::tiny_architectures()) {
    SCOPED_TRACE(name);
    const Model model = build_model(architecture, {.rounding = Rounding::e4m3});
    for (std::size_t u = 1; u + 1 < model.units.size(); ++u) {
      std::set<std::string> names = products_of(model, model.units[u]);
      // A router's stay as they are.
      const bool routes = std::ranges::any_of(model.graph_of(model.units[u]).nodes,
                                              [](const Node& node) { return node.rule->name() == "route"; });
      EXPECT_LE(routes, architecture.experts > 0);
      for (const char* router : {"linear", "linear_input_gradient", "linear_weight_gradient"})
        EXPECT_EQ(names.erase(router), routes ? 1U : 0U) << router;
      const bool has_gate = !name.starts_with("gpt2") && name != "starcoder2";
      EXPECT_EQ(names.erase("linear_activation_e4m3"), has_gate ? 0U : 1U);
      EXPECT_THAT(names,
                  ElementsAre("linear_e4m3", "linear_input_gradient_e4m3", "linear_weight_gradient_e4m3"));
    }
    EXPECT_THAT(products_of(model, model.head()),
                ElementsAre("linear", "linear_input_gradient", "linear_weight_gradient"));
    EXPECT_THAT(products_of(model, model.embedding()), IsEmpty());
  }
}

TEST(RoundedProducts, StayThoseOnRanksThatShareLayersAndCopyKeys) {
  const Model whole = build_model(test::tiny_llama_to_split(), {.rounding = Rounding::e4m3});
  const Model part = split_model(whole, tensor_split(4, 0));
  EXPECT_THAT(products_of(part, part.units[1]),
              ElementsAre("linear_e4m3", "linear_input_gradient_e4m3", "linear_weight_gradient_e4m3"));
}

}  // namespace
}  // namespace strata
