// A rule that no pass has heard of takes part in all of them, by what it answers.
#include "engine/model/graph/operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/precision.h"
#include "engine/model/graph/fuse.h"
#include "engine/model/graph/logits_graph.h"
#include "engine/model/graph/low_rank_update.h"
#include "engine/model/graph/merge_remade.h"
#include "engine/model/graph/operators/elementwise.h"
#include "engine/model/graph/round_products.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/graph/share_columns.h"
#include "engine/model/graph/share_sequences.h"
#include "engine/model/graph/within_documents.h"

namespace strata {
namespace {

using ::testing::ElementsAre;

/// What an OwnRule answers.
struct Answers {
  std::string name = "own";
  std::optional<ProductForm> product = {};
  std::optional<LossForm> loss = {};
  FusionForm fusion = {};
  TokenOperands tokens = {};
  int decides = kNoOperand;
  bool is_replaced = false;  ///< by a rule of another name
};

class OwnRule final : public Operator {
 public:
  enum : int { x, extra, out };

  explicit OwnRule(Answers answers) : answers_(std::move(answers)) {}

  std::string_view name() const override { return answers_.name; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t c, t c, t c"; }
  void run(Kernels&, const Operands&) const override {}
  void differentiate(const Node&, Derivation&) const override {}

  std::optional<ProductForm> product_form() const override { return answers_.product; }
  std::optional<LossForm> loss_form() const override { return answers_.loss; }
  FusionForm fusion_form() const override { return answers_.fusion; }
  TokenOperands token_operands(const Node&) const override { return answers_.tokens; }
  bool decides_by(int operand) const override { return operand == answers_.decides; }
  std::shared_ptr<const Operator> rounded(Rounding) const override { return renamed("rounded"); }
  std::optional<Node> with_remade(const Node& node, const Node& remade) const override {
    if (remade[out] != node[x]) return {};
    return Node{renamed("both"), {remade[x], {}, node[out]}};
  }
  bool share_columns(const Node& node, const ColumnSharing& sharing, UnitGraph& graph) const override {
    if (!answers_.is_replaced || !sharing.splits(graph.tensor(node[x]).columns)) return false;
    graph.nodes.push_back({renamed("of columns"), node.operands});
    return true;
  }
  bool share_sequences(const Node& node, SequenceSharing& sharing) const override {
    if (!answers_.is_replaced) return false;
    for (std::int64_t step = 0; step < sharing.ranks(); ++step) sharing.add(renamed("step"), node.operands);
    sharing.add_behind_backward(renamed("end"), node.operands);
    return true;
  }

 private:
  std::shared_ptr<const Operator> renamed(std::string name) const {
    Answers answers = answers_;
    answers.name = std::move(name);
    return std::make_shared<OwnRule>(std::move(answers));
  }

  Answers answers_;
};

constexpr std::array<AxisName, 1> kHidden = {"hidden"};

TensorView tensor(UnitGraph& graph, const char* name, Region region = Region::workspace) {
  return {graph.add({name, TensorType::precision, token_axis(), {"hidden", 8}, region})};
}

Node own(Answers answers, const TensorView& x, const TensorView& out) {
  return {std::make_shared<OwnRule>(std::move(answers)), {x, {}, out}};
}

std::vector<std::string> names(const std::vector<Node>& nodes) {
  std::vector<std::string> names;
  for (const Node& node : nodes) names.emplace_back(node.rule->name());
  return names;
}

TEST(RuleOfNoPass, GetsPlacesAndKeysOfTokens) {
  UnitGraph graph;
  const TensorView x = tensor(graph, "x", Region::input), out = tensor(graph, "out", Region::output);
  graph.nodes = {own({.tokens = {.places = OwnRule::extra}}, x, out)};
  const UnitGraph placed = give_places(graph, {.within_documents = true});
  EXPECT_EQ(placed.tensor(placed.nodes[0][OwnRule::extra]).name, "places");
  EXPECT_EQ(next_site(graph), 0U);
  graph.nodes = {own({.tokens = {.row_keys = OwnRule::extra}}, x, out), own({}, x, out)};
  EXPECT_EQ(next_site(graph), 1U);
  const UnitGraph keyed = give_row_keys(graph, 1);
  EXPECT_EQ(keyed.tensor(keyed.nodes[0][OwnRule::extra]).name, "row_keys");
  EXPECT_FALSE(keyed.nodes[1][OwnRule::extra]);
}

TEST(RuleOfNoPass, RoundsItsProductUnlessSomebodyChoosesByIt) {
  const ProductForm product = {.x = OwnRule::x, .weight = OwnRule::extra, .out = OwnRule::out};
  UnitGraph graph;
  const TensorView x = tensor(graph, "x"), made = tensor(graph, "made"), out = tensor(graph, "out");
  graph.nodes = {own({.product = product}, x, made), own({}, made, out)};
  EXPECT_THAT(names(round_products(graph, Rounding::e4m3).nodes), ElementsAre("rounded", "own"));
  graph.nodes[1] = own({.decides = OwnRule::x}, made, out);
  EXPECT_THAT(names(round_products(graph, Rounding::e4m3).nodes), ElementsAre("own", "own"));
}

TEST(RuleOfNoPass, TakesTheSumBeforeIt) {
  UnitGraph graph;
  const TensorView a = tensor(graph, "a"), b = tensor(graph, "b"), sum = tensor(graph, "sum"),
                   out = tensor(graph, "out");
  const AddendForm form = {.x = OwnRule::x, .addend = OwnRule::extra, .sum = OwnRule::out};
  graph.nodes = {{std::make_shared<AdditionRule>(), {a, b, sum}},
                 own({.fusion = {.addend = form}}, sum, out)};
  const std::vector<Node> fused = fuse(graph, Fusing::norms).nodes;
  ASSERT_THAT(names(fused), ElementsAre("own"));
  EXPECT_THAT(fused[0].operands, ElementsAre(b, a, sum));
}

TEST(RuleOfNoPass, MakesAgainWhatItsKernelHasOnItsWay) {
  UnitGraph graph;
  const TensorView x = tensor(graph, "x"), made = tensor(graph, "made"), out = tensor(graph, "out");
  const std::vector<Node> nodes = {own({}, x, made), own({}, made, out)};
  EXPECT_THAT(names(merge_remade(nodes)), ElementsAre("both"));
  EXPECT_THAT(names(merge_remade({nodes[0], own({}, out, x)})), ElementsAre("own", "own"));
}

TEST(RuleOfNoPass, SaysWhatStandsInItsPlaceBetweenRanks) {
  UnitGraph graph;
  const TensorView x = tensor(graph, "x"), out = tensor(graph, "out");
  graph.nodes = {own({.is_replaced = true}, x, out), own({}, x, out)};
  EXPECT_THAT(names(share_columns(graph, {kHidden, 2}).nodes), ElementsAre("of columns", "own"));
  EXPECT_THAT(names(share_columns(graph, {{}, 2}).nodes), ElementsAre("own", "own"));
  const DerivedGraph shared = share_sequences({graph, {.tensors = graph.tensors, .nodes = {}}}, 3);
  EXPECT_THAT(names(shared.forward.nodes), ElementsAre("step", "step", "step", "own"));
  EXPECT_THAT(names(shared.backward.nodes), ElementsAre("end"));
}

TEST(RuleOfNoPass, LeavesItsLogits) {
  UnitGraph graph;
  const TensorView logits = tensor(graph, "logits"), losses = tensor(graph, "losses", Region::losses);
  const LossForm loss = {.logits = OwnRule::x, .losses = OwnRule::out, .soft_cap = 30};
  graph.nodes = {own({}, logits, logits), own({.loss = loss}, logits, losses)};
  const LogitsGraph made = without_loss(graph);
  EXPECT_THAT(names(made.graph.nodes), ElementsAre("own"));
  EXPECT_EQ(made.logits, logits.tensor);
  EXPECT_EQ(made.soft_cap, 30);
}

TEST(RuleOfNoPass, HasNoAdaptersUnlessItSaysHow) {
  UnitGraph graph;
  const Node node = own({}, tensor(graph, "x"), tensor(graph, "out"));
  EXPECT_THROW(node.rule->add_low_rank(node, {}, graph), std::logic_error);
}

}  // namespace
}  // namespace strata
