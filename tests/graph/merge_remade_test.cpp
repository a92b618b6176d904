#include "engine/model/graph/merge_remade.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/activation.h"
#include "engine/model/graph/operators/activation.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/operators/linear.h"

namespace strata {
namespace {

using ::testing::ElementsAre;

/// Tensors of a backward pass, by number; a node names them in its rule's order.
enum : TensorId { pre, activated, weight, weight_gradient, dy, gradient, pre_gradient, other };

Node node(std::shared_ptr<const Operator> rule, const std::vector<TensorId>& tensors) {
  Node node{.rule = std::move(rule), .operands = {}};
  for (const TensorId tensor : tensors) node.operands.push_back({tensor});
  return node;
}

class MergeRemade : public ::testing::Test {
 protected:
  Node again(TensorId x = pre, TensorId out = activated) const {
    return node(std::make_shared<ActivationRule>(Activation::silu, false), {x, out});
  }
  Node of_weight(TensorId x = activated) const {
    return node(std::make_shared<LinearWeightGradientRule>(WeightOrder::linear), {x, dy, weight_gradient});
  }
  Node of_input(TensorId to = gradient) const {
    return node(std::make_shared<LinearInputGradientRule>(WeightOrder::linear), {dy, weight, {}, to});
  }
  Node of_activation(Activation kind = Activation::silu) const {
    Node made = node(std::make_shared<ActivationGradientRule>(kind, false), {pre, gradient, pre_gradient});
    made.operands.emplace_back();
    return made;
  }

  static std::vector<std::string> names(const std::vector<Node>& nodes) {
    std::vector<std::string> names;
    names.reserve(nodes.size());
    for (const Node& node : nodes) names.emplace_back(node.rule->name());
    return names;
  }
};

TEST_F(MergeRemade, MakesAnActivationWithItsGradientAndThenWhatReadsIt) {
  const std::vector<Node> merged = merge_remade({again(), of_weight(), of_input(), of_activation()});
  EXPECT_THAT(names(merged),
              ElementsAre("linear_input_gradient", "activation_gradient", "linear_weight_gradient"));
  EXPECT_EQ(merged[1][ActivationGradientRule::out], TensorView{activated});
  EXPECT_EQ(merged[1][ActivationGradientRule::x_gradient], TensorView{pre_gradient});
}

TEST_F(MergeRemade, LeavesAnActivationThatItsGradientWaitsFor) {
  const std::vector<Node> nodes = {again(), node(of_input().rule, {activated, weight, {}, gradient}),
                                   of_activation()};
  EXPECT_EQ(names(merge_remade(nodes)), names(nodes));
  // Also by way of another node.
  const std::vector<Node> by_way = {again(), node(of_input().rule, {activated, weight, {}, other}),
                                    node(of_input().rule, {other, weight, {}, gradient}), of_activation()};
  EXPECT_EQ(names(merge_remade(by_way)), names(by_way));
}

TEST_F(MergeRemade, LeavesOrdersOfSumsAsTheyAre) {
  // Both add to the gradient of one weight.
  const std::vector<Node> merged =
      merge_remade({again(), of_weight(), of_weight(other), of_input(), of_activation()});
  EXPECT_THAT(names(merged), ElementsAre("linear_input_gradient", "activation_gradient",
                                         "linear_weight_gradient", "linear_weight_gradient"));
  EXPECT_EQ(merged[2][LinearWeightGradientRule::x], TensorView{activated});
  EXPECT_EQ(merged[3][LinearWeightGradientRule::x], TensorView{other});
}

TEST_F(MergeRemade, LeavesWhatStandsAcrossAnExchange) {
  const std::vector<Node> nodes = {again(), of_weight(), of_input(),
                                   node(std::make_shared<ExchangeRule>(ExchangeKind::all_reduce), {gradient}),
                                   of_activation()};
  EXPECT_EQ(names(merge_remade(nodes)), names(nodes));
}

TEST_F(MergeRemade, LeavesGradientsOfSomethingElse) {
  const std::vector<Node> other_kind = {again(), of_weight(), of_input(), of_activation(Activation::relu2)};
  EXPECT_EQ(names(merge_remade(other_kind)), names(other_kind));
  const std::vector<Node> other_tensor = {again(other), of_weight(), of_input(), of_activation()};
  EXPECT_EQ(names(merge_remade(other_tensor)), names(other_tensor));
}

TEST_F(MergeRemade, MergesOneAfterAnother) {
  std::vector<Node> twice = {again(), of_weight(), of_input(), of_activation()};
  for (const Node& node : std::vector(twice)) {
    twice.push_back(node);
    for (TensorView& view : twice.back().operands)
      if (view) view.tensor += 8;
  }
  EXPECT_THAT(names(merge_remade(twice)),
              ElementsAre("linear_input_gradient", "activation_gradient", "linear_weight_gradient",
                          "linear_input_gradient", "activation_gradient", "linear_weight_gradient"));
}

}  // namespace
}  // namespace strata
