// Every declaration of axes is true: on nodes of both passes of units that have all operators, parts computed
// alone give the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "engine/device/activation.h"
#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/fuse.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/graph/logits_graph.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/graph/share_columns.h"
#include "engine/model/graph/unit_builder.h"
#include "engine/model/graph/within_documents.h"
#include "tests/graph/split_proof.h"
#include "tests/support/declared_axes.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {
namespace {

// All that is split is a multiple of 2 and of 3.
constexpr MicrobatchShape kShape{6, 6};
constexpr std::int64_t kKvHeads = 6, kHeads = 36, kDimension = 4, kVocabulary = 12;

constexpr BalanceOptions kBalance = {.coefficient = 0.1, .layers = 2};

Axis hidden() {
  return {"hidden", 6};
}
Axis intermediate() {
  return {"intermediate", 6};
}

TensorView attention(UnitBuilder& builder, const TensorView& x) {
  const std::int64_t query = kHeads * kDimension, key = kKvHeads * kDimension;
  const Axis keys = key_axis(kKvHeads, kDimension);
  const TensorView qkv =
      builder.linear(x, {{"q", query_axis(kHeads, kKvHeads, kDimension)}, {"k", keys}, {"v", keys}});
  const TensorView rotated = builder.head_norm(builder.columns(qkv, 0, query + key), "q_norm", "k_norm",
                                               kHeads, kDimension, {}, /*tables=*/0);
  builder.rope(rotated, kDimension, 0, kDimension);
  AttentionShape shape;
  shape.heads = kHeads;
  shape.kv_heads = kKvHeads;
  shape.head_dimension = kDimension;
  shape.scale = 0.5F;
  const TensorView attended =
      builder.attention(builder.columns(rotated, 0, query), builder.columns(rotated, query, key),
                        builder.columns(qkv, query + key, key), shape);
  return builder.linear(attended, {{"o", hidden()}}, {.bias = true});
}

UnitBuilder layer() {
  UnitBuilder builder("layer", "");
  const TensorView input = builder.input(hidden());
  const TensorView mid =
      builder.add(input, attention(builder, builder.norm(input, "norm.0", {NormKind::layer_norm, 1e-5})));
  const TensorView gate_up = builder.linear(builder.norm(mid, "norm.1", {NormKind::layer_norm, 1e-5}),
                                            {{"gate", intermediate()}, {"up", intermediate()}},
                                            {WeightOrder::conv1d, Init::normal, true});
  const TensorView gated =
      builder.add(mid, builder.linear(builder.activate_gate(gate_up, Activation::silu), {{"down", hidden()}},
                                      {WeightOrder::conv1d, Init::normal, true}));
  const TensorView routed = builder.experts(builder.norm(gated, "norm.2", {}), {.experts = 3,
                                                                                .top_k = 2,
                                                                                .intermediate = 6,
                                                                                .router = "router",
                                                                                .gate = "experts.{}.gate",
                                                                                .up = "experts.{}.up",
                                                                                .down = "experts.{}.down",
                                                                                .balance = kBalance});
  const TensorView plain =
      builder.activate(builder.linear(routed, {{"plain", intermediate()}}), Activation::gelu_tanh);
  const TensorView biased = builder.activate(
      builder.linear(routed, {{"biased", intermediate()}}, {WeightOrder::conv1d, Init::normal, true}),
      Activation::gelu_tanh);
  const TensorView last = builder.linear(builder.add(plain, biased), {{"last", hidden()}});
  builder.output(builder.add(gated, builder.scale(last, 0.5)));
  return builder;
}

/// A norm over the columns of several ranks.
UnitGraph shared_norm() {
  UnitBuilder builder("norms", "");
  const TensorView x = builder.linear(builder.input(hidden()), {{"in", intermediate()}});
  builder.output(builder.linear(builder.norm(x, "norm", {}), {{"out", hidden()}}));
  return share_columns(builder.finish().graph, {std::array<AxisName, 1>{"intermediate"}, 2});
}

UnitBuilder embedding() {
  UnitBuilder builder("embedding", "");
  builder.begin_tally(3);
  const TensorView input = builder.input(hidden());
  builder.output(builder.add(
      input,
      builder.embedding(builder.data(0, "tokens", TensorType::int32, {}, token_axis()), "table", "positions",
                        {"vocabulary", kVocabulary}, {"learned_positions", 8}, hidden())));
  return builder;
}

UnitBuilder head() {
  UnitBuilder builder("head", "");
  const TensorView logits = builder.linear(builder.input(hidden()), {{"head", {"vocabulary", kVocabulary}}});
  builder.cross_entropy(logits, builder.data(1, "targets", TensorType::int32, {}, token_axis()), 0,
                        builder.balance_loss(3, kBalance));
  return builder;
}

/// The nodes of a pass, with what each finds in its operands when its turn comes.
class Walk {
 public:
  using Visit = std::function<void(const Node&, const UnitGraph&, const std::vector<OperandValues>&)>;

  Walk(const UnitGraph& graph, Visit visit)
      : graph_(graph), backward_(Derivation(graph).finish()), visit_(std::move(visit)) {
    for (const Tensor& tensor : backward_.tensors) tensors_.push_back(first_values(tensor));
  }

  void run() {
    run(graph_.nodes);
    run(backward_.nodes);
  }

 private:
  std::vector<float> first_values(const Tensor& tensor) {
    const std::int64_t count = tensor.rows.in(kShape)*tensor.columns.in(kShape);
    std::vector<float> values = random_values(count, 100 + tensors_.size());
    for (float& value : values) value *= 0.5F;
    if (tensor.type != TensorType::int32) return values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // Documents of three tokens; or any rows of a table.
      const auto place = static_cast<std::int64_t>(i) % kShape.sequence % 3;
      const auto row = static_cast<std::int32_t>(tensor.region == data_region(kPlacesArray)
                                                     ? place
                                                     : (7 * static_cast<std::int64_t>(i) + 3) % kVocabulary);
      std::memcpy(&values[i], &row, sizeof(row));
    }
    return values;
  }

  void run(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      std::vector<OperandValues> values;
      for (const TensorView& view : node.operands) values.push_back(load(view));
      visit_(node, backward_, values);
      values = run_alone(*node.rule, values, kShape);
      const Touches touches = node.rule->touches();
      for (std::size_t i = 0; i < touches.size(); ++i)
        if (node.operands[i] && touches[i] != Touch::reads) store(node.operands[i], values[i]);
    }
  }

  template <typename Visit>
  void for_each(const TensorView& view, const Visit& visit) {
    const std::int64_t all = backward_.tensor(view).columns.in(kShape);
    const std::int64_t columns = view.is_whole() ? all : view.columns;
    std::vector<float>& tensor = tensors_[static_cast<std::size_t>(view.tensor)];
    for (std::int64_t row = 0; row < std::ssize(tensor) / all; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        visit(tensor[static_cast<std::size_t>(row * all + view.first + column)]);
  }

  OperandValues load(const TensorView& view) {
    if (!view) return {};
    const Matrix size = size_of(backward_.tensor(view), {.microbatch = kShape});
    OperandValues values{size.rows, view.is_whole() ? size.columns : view.columns, size.dtype, {}};
    for_each(view, [&](float value) { values.elements.push_back(value); });
    return values;
  }

  void store(const TensorView& view, const OperandValues& values) {
    std::size_t next = 0;
    for_each(view, [&](float& value) { value = values.elements[next++]; });
  }

  const UnitGraph& graph_;
  UnitGraph backward_;
  Visit visit_;
  std::vector<std::vector<float>> tensors_;
};

/// Adapted weights have forms with different ranks.
std::vector<std::optional<LowRankForm>> low_ranks_of(const std::vector<bool>& is_adapted) {
  std::vector<std::optional<LowRankForm>> low_ranks(is_adapted.size());
  for (std::size_t i = 0; i < is_adapted.size(); ++i)
    if (is_adapted[i]) low_ranks[i] = {.rank = 6 + static_cast<std::int64_t>(i), .scale = 0.5};
  return low_ranks;
}

/// Its linear layers have adapters.
UnitGraph adapted_layer(double dropout) {
  UnitBuilder::Built built = layer().finish();
  const std::vector<bool> weights = find_linear_weights(built);
  return give_row_keys(adapt(std::move(built), low_ranks_of(weights), {.dropout = dropout}).graph,
                       row_keys_array(true));
}

/// All that are alone in their products, and two of three in one.
UnitGraph layer_with_magnitudes() {
  UnitBuilder::Built built = layer().finish();
  std::vector<bool> weights = find_linear_weights(built);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string layer = layer_of(built.unit.tensors[i].hf_name);
    weights[i] = weights[i] && layer != "gate" && layer != "up" && layer != "k";
  }
  return adapt(std::move(built), low_ranks_of(weights), {.has_magnitudes = true}).graph;
}

/// It hands nothing back.
UnitGraph last_rows_of_head() {
  UnitGraph graph = head().finish().graph;
  graph.wants_input_gradient = false;
  return of_last_rows(without_loss(std::move(graph)).graph, 1);
}

void visit_all_nodes(const Walk::Visit& visit) {
  const UnitGraph whole_loss = head().finish().graph;
  const UnitGraph split_loss = share_columns(whole_loss, {std::array<AxisName, 1>{"vocabulary"}, 6});
  for (const UnitGraph& graph : {layer().finish().graph, adapted_layer(0), layer_with_magnitudes(),
                                 embedding().finish().graph, whole_loss, split_loss}) {
    Walk(graph, visit).run();
    Walk(fuse(graph), visit).run();
  }
  Walk(shared_norm(), visit).run();
  Walk(last_rows_of_head(), visit).run();
  Walk(adapted_layer(0.5), visit).run();
  for (const UnitGraph& graph : {layer().finish().graph, embedding().finish().graph})
    Walk(give_places(graph, {.within_documents = true}), visit).run();
}

// Invariant of devices (DeclaredAxes.*): Axes are as declared. An operator that is split as its rule declares
// gives the result of the whole operator. Each node of each architecture has the axes that its rule declares.
TEST(DeclaredAxes, AreTrue) {
  SplitProof proof;
  visit_all_nodes([&](const Node& node, const UnitGraph& graph, const std::vector<OperandValues>& values) {
    EXPECT_THAT(proof.complaints(*node.rule, node, graph, values, kShape), ::testing::IsEmpty())
        << declaration_of(*node.rule);
  });
  std::set<std::string> declared;
  for (const auto& [declaration, variables] : proof.proven()) declared.insert(declaration);
  EXPECT_EQ(declared, kDeclaredAxes);
}

/// Nothing is declared that no node has shown.
TEST(DeclaredAxes, AreAllTried) {
  SplitProof proof;
  std::map<std::string, std::set<std::string>> declared;
  visit_all_nodes([&](const Node& node, const UnitGraph& graph, const std::vector<OperandValues>& values) {
    proof.complaints(*node.rule, node, graph, values, kShape);
    const Legality legality = legality_of(*node.rule);
    std::set<std::string>& variables = declared[declaration_of(*node.rule)];
    for (const auto& [name, splitting] : legality.variables)
      if (splitting != Splitting::whole) variables.insert(name);
    for (const Legality::Operand& operand : legality.operands)
      if (operand.is_linear) variables.insert("+");
  });
  EXPECT_EQ(proof.proven(), declared);
}

/// Another declaration for a rule.
class Misdeclared final : public GradientOperator {
 public:
  Misdeclared(const Operator& rule, std::string axes) : rule_(rule), axes_(std::move(axes)) {}

  std::string_view name() const override { return rule_.name(); }
  Touches touches() const override { return rule_.touches(); }
  std::string_view axes() const override { return axes_; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override {
    return rule_.of_part(variable, part);
  }
  void run(Kernels& kernels, const Operands& operands) const override { rule_.run(kernels, operands); }

 private:
  const Operator& rule_;
  std::string axes_;
};

class WrongAxes : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// Invariant (WrongAxes.*): Axes are as declared.
TEST_P(WrongAxes, AreFound) {
  const char* const rule = GetParam().first;
  const char* const axes = GetParam().second;
  std::size_t tried = 0, complaints = 0;
  visit_all_nodes([&](const Node& node, const UnitGraph& graph, const std::vector<OperandValues>& values) {
    if (node.rule->name() != rule) return;
    ++tried;
    SplitProof proof;
    complaints += proof.complaints(Misdeclared(*node.rule, axes), node, graph, values, kShape).size();
  });
  EXPECT_GT(tried, 0U);
  EXPECT_GT(complaints, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Declarations, WrongAxes,
    ::testing::Values(
        std::pair("linear", "+t k, n k, +1 n, +t n, +t n"),            // a sum that is not said
        std::pair("linear", "+t k+, n k, 1 n, +t n, +t n"),            // a bias in each part
        std::pair("linear", "+t k+, n k, +1 n, t n, +t n"),            // an addend in each part
        std::pair("linear", "+t k+, n k, +1 n, +t n"),                 // an operand forgotten
        std::pair("linear", "+t k+, n k+, +1 n, +t n, +t n"),          // a mark that is repeated
        std::pair("linear_weight_gradient", "t k, t n, n k"),          // gradients are sums over tokens
        std::pair("norm", "t c, t c, t c, 1 c, 1 c, t c, 1 t, 1 t"),   // statistics need the whole row
        std::pair("norm", "t c+, t c, t c, 1 c, 1 c, t c, 1 t, 1 t"),  // and are no sums of its parts'
        std::pair("norm", "+t c^, +t c, +t c, 1 c, 1 c, +t c, 1 t, 1 t"),
        std::pair("norm_gradient", "t c^, 1 c, 1 t, 1 t, t c, t c, t c, 1 c, 1 c"),
        std::pair("row_squares", "t c, 1 t"), std::pair("shared_norm", "t c+, 1 t, 1 c, t c"),
        std::pair("magnitude_dots", "n k+, r^ k, n r, r r, n r, 1 n"),  // what is of the update in each part
        std::pair("column_scale", "t n, 1 n, 1 n, 1 n, +1 n, +t n"),
        std::pair("magnitude_gradient", "t n, t n, 1 n, 1 n"),
        std::pair("row_projection", "t c^, +t c, 1 c, 1 t"),  // it is linear in the gradient, not in x
        std::pair("shared_norm_gradient", "t c, 1 c, 1 t, 1 t, t c, t c, t c, 1 c"),
        std::pair(
            "head_norm",
            "+(s p^) (g q^ d^)|(g d), 1 d, 1 d, +(s p) (g q d)|(g d), (g q)|g (s p), p e^, p e, 1 (s p)"),

        std::pair("attention", "(s p) (g q d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, 1 (s p)"),
        std::pair("attention_gradient",
                  "(s p^) (g q d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, (s p) (g q d), "
                  "(s p) (g q d), (s p) (g d), (s p) (g d), 1 (s p)"),
        std::pair("activation", "+t c, +t c"),
        std::pair("dropout", "+t c, 1 t, +t c"),  // heads of one group are no neighbours
        std::pair("embedding", "1 (s p), +v+ c, +l^ c, +(s p) c, 1 (s p)"),
        std::pair("embedding", "1 (s p^), v+ c, l^ c, (s p) c, 1 (s p)"),
        std::pair("embedding", "1 (s p^), v+ c, +l^ c, +(s p) c, 1 (s p)"),
        std::pair("embedding_gradient", "1 (s p^), (s p) c, v c"),
        std::pair("cross_entropy", "1 1, t v, 1 t, 1 t"), std::pair("softmax_parts", "+t v+, 1 t, +t c^"),
        std::pair("parts_gradient", "t v, 1 t, +t c^, 1 1"),
        std::pair("cross_entropy_gradient", "1 1, t v+, 1 t, 1 t, 1 1"),
        std::pair("route", "t e, t e, 1 (t k^), t k"),
        std::pair("group_rows", "1 (t k^), 1 r^, 1 (t k), 1 o^"),
        std::pair("expert_product", "+r^ c+, 1 o^, (e n) c, +r n"),
        std::pair("combine", "+r^ c, 1 (t k), +t k, +t c"),
        std::pair("combine_gradient", "+r^ c+, 1 (t^ k^), t k, t c, +r c, +t k")));

TEST(Axis, SlicesWholePartsOnly) {
  const Axis axis = query_axis(4, 2, 8) | key_axis(2, 8) | key_axis(2, 8);
  EXPECT_EQ(to_string(axis), "kv_heads 2 · queries 2 · 8 | kv_heads 2 · 8 | kv_heads 2 · 8");
  EXPECT_EQ(axis.extent(), fixed(64));
  EXPECT_EQ(to_string(axis.slice(32, 16)), "kv_heads 2 · 8");
  EXPECT_EQ(to_string(axis.slice(0, 48)), "kv_heads 2 · queries 2 · 8 | kv_heads 2 · 8");
  EXPECT_THROW(axis.slice(0, 40), std::logic_error);
  EXPECT_THROW(axis.slice(16, 16), std::logic_error);
}

}  // namespace
}  // namespace strata::test
