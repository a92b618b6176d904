// What tensor parallelism needs to know: which tensors are split, and where ranks exchange values. The counts
// are Megatron's (Shoeybi et al. 2019; with sequences split, Korthikanti et al. 2022).
#include "engine/model/graph/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "engine/model/build_model.h"
#include "engine/model/graph/derivation.h"
#include "engine/model/graph/fuse.h"
#include "engine/model/graph/legality.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/share_columns.h"
#include "engine/model/model.h"
#include "engine/model/sampling_model.h"
#include "optim/update_rule.h"
#include "tests/model/tiny_model.h"
#include "tests/support/declared_axes.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array<AxisName, 2> kTensorParallel = {"kv_heads", "intermediate"};
constexpr std::array<AxisName, 3> kWithSequences = {"kv_heads", "intermediate", "positions"};

/// With heads, or groups of heads, for two ranks.
Architecture tiny(const std::string& name) {
  for (auto& [each, architecture] : tiny_architectures()) {
    if (each != name) continue;
    Architecture even = architecture;
    if (even.model_type == "gpt2") even.heads = even.kv_heads = 4, even.head_dimension = even.hidden / 4;
    return even;
  }
  throw std::logic_error("no architecture " + name);
}

UnitGraph graph_of(const Architecture& architecture, std::size_t unit) {
  const Model model = build_model(architecture);
  return model.graph_of(model.units[unit]);
}

/// "input: whole", one tensor a line.
std::string layout(const UnitGraph& graph, std::span<const AxisName> axes) {
  const DerivedGraph derived{graph, Derivation(graph).finish()};
  const UnitLayout layout = lay_out(derived, axes, 2);
  std::string text;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const auto& [form, axis] = layout.tensors[i];
    text += derived.backward.tensors[i].name + ": ";
    text += form == Layout::Form::whole         ? "whole"
            : form == Layout::Form::partial_sum ? "partial sum"
                                                : "split on " + std::string(axis.text());
    text += '\n';
  }
  return text;
}

struct Exchanges {
  std::vector<std::string> forward, backward;
};

/// "all_reduce sum before norm".
Exchanges exchanges(const UnitGraph& graph, std::span<const AxisName> axes) {
  const DerivedGraph derived{graph, Derivation(graph).finish()};
  const UnitLayout layout = lay_out(derived, axes, 2);
  const auto print = [&](const std::vector<TensorExchange>& exchanges, const std::vector<Node>& nodes) {
    std::vector<std::string> lines;
    lines.reserve(exchanges.size());
    for (const auto& [kind, tensor, before] : exchanges) {
      lines.push_back(std::string(name_of(kind)) + " " + derived.backward.tensor(tensor).name + " before " +
                      (before < nodes.size() ? std::string(nodes[before].rule->name()) : "the end"));
    }
    return lines;
  };
  return {print(layout.forward_exchanges, graph.nodes),
          print(layout.backward_exchanges, derived.backward.nodes)};
}

Model without_auxiliary_loss(Architecture architecture) {
  architecture.balance_coefficient = 0;
  return build_model(architecture);
}

// Invariant: Axes are as declared.
TEST(DeclaredAxes, FitEveryNodeOfEveryArchitecture) {
  for (const auto& [name, architecture] : tiny_architectures()) {
    std::vector<UnitGraph> graphs = build_model(architecture).graphs;
    const std::vector<UnitGraph> sampled = sampling_model(without_auxiliary_loss(architecture), 8).graphs;
    graphs.insert(graphs.end(), sampled.begin(), sampled.end());
    for (const UnitGraph& plain : graphs) {
      const UnitGraph forward = fuse(plain), backward = Derivation(forward).finish();
      for (const UnitGraph* graph : {&forward, &backward}) {
        for (const Node& node : graph->nodes) {
          EXPECT_TRUE(kDeclaredAxes.contains(declaration_of(*node.rule)))
              << declaration_of(*node.rule) << " is proven by no test in tests/graph/axes_test.cpp";
          EXPECT_NO_THROW(bind_axes(node, *graph, legality_of(*node.rule))) << name;
        }
      }
    }
  }
}

TEST(TensorParallel, ReducesTwiceInEachPassOfALayer) {
  for (const auto& [name, norms, attention, norm] :
       {std::array{"gpt2", "ln_1", "attn.c_proj", "ln_2"},
        std::array{"llama_untied", "input_layernorm", "self_attn.o_proj", "post_attention_layernorm"}}) {
    const Exchanges found = exchanges(fuse(graph_of(tiny(name), 1)), kTensorParallel);
    EXPECT_THAT(found.forward, ElementsAre("all_reduce " + std::string(attention) + " before norm",
                                           "all_reduce sum before the end"));
    EXPECT_THAT(found.backward,
                ElementsAre("all_reduce " + std::string(norm) + "_gradient before norm_gradient",
                            "all_reduce " + std::string(norms) + "_gradient before norm_gradient"));
  }
}

/// What experts have made travels as their sum, and backward the router's weights travel, too.
TEST(TensorParallel, ReducesTheSumOfExperts) {
  const Exchanges found = exchanges(fuse(graph_of(tiny("mixtral"), 1)), kTensorParallel);
  EXPECT_THAT(found.forward,
              ElementsAre("all_reduce self_attn.o_proj before norm", "all_reduce sum before the end"));
  EXPECT_THAT(found.backward, ElementsAre("all_reduce router.weights_gradient before route_gradient",
                                          "all_reduce post_attention_layernorm_gradient before norm_gradient",
                                          "all_reduce input_layernorm_gradient before norm_gradient"));
}

TEST(TensorParallel, SplitsWhatHasTheAxes) {
  const std::string text = layout(graph_of(tiny("qwen3"), 1), kTensorParallel);
  for (const char* line :
       {"input: whole\n", "self_attn.q_proj: split on kv_heads\n", "attention: split on kv_heads\n",
        "attention.log_sum_exp: split on kv_heads\n", "self_attn.o_proj: partial sum\n",
        "mlp.gate_proj: split on intermediate\n", "mlp.down_proj: partial sum\n",
        "input_layernorm.weight_gradient: whole\n", "mlp.gate_proj_gradient: split on intermediate\n",
        // Each rank has the part that its heads give.
        "self_attn.q_norm.weight_gradient: partial sum\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(TensorParallel, WithSplitSequencesGathersAndScatters) {
  const Exchanges found = exchanges(graph_of(tiny("llama_untied"), 1), kWithSequences);
  EXPECT_THAT(found.forward, ElementsAre("all_gather input_layernorm before linear",
                                         "reduce_scatter self_attn.o_proj before add",
                                         "all_gather post_attention_layernorm before linear",
                                         "reduce_scatter mlp.down_proj before add"));
  // The inputs of products are gathered again for the gradients of weights.
  EXPECT_THAT(found.backward,
              ElementsAre("all_gather sum_gradient before linear_weight_gradient",
                          "all_gather post_attention_layernorm before linear_weight_gradient",
                          "reduce_scatter post_attention_layernorm_gradient before norm_gradient",
                          "all_gather sum_gradient before linear_weight_gradient",
                          "all_gather input_layernorm before linear_weight_gradient",
                          "reduce_scatter input_layernorm_gradient before norm_gradient"));
}

/// What products have made is scattered before it is added to what tokens have, so products stay alone.
TEST(TensorParallel, WithSplitSequencesScattersWhatNormsRead) {
  const Exchanges found = exchanges(fuse(graph_of(tiny("gemma2"), 1), Fusing::norms), kWithSequences);
  EXPECT_THAT(found.forward, ElementsAre("all_gather input_layernorm before linear",
                                         "reduce_scatter self_attn.o_proj before norm",
                                         "all_gather pre_feedforward_layernorm before linear",
                                         "reduce_scatter mlp.down_proj before norm"));
}

/// For norms over all heads a number per token travels each way.
TEST(TensorParallel, AddsUpSquaresOfNormsOverAllHeads) {
  const UnitGraph graph = fuse(share_columns(graph_of(tiny("olmo2"), 1), {kTensorParallel, 2}));
  const Exchanges found = exchanges(graph, kTensorParallel);
  EXPECT_THAT(found.forward,
              ElementsAre("all_reduce self_attn.q_norm.squares before row_deviation",
                          "all_reduce self_attn.k_norm.squares before row_deviation",
                          "all_reduce self_attn.o_proj before norm", "all_reduce mlp.down_proj before norm"));
  EXPECT_THAT(found.backward,
              ElementsAre("all_reduce sum_gradient before norm_gradient",
                          "all_reduce self_attn.k_norm.deviation_gradient before shared_norm_gradient",
                          "all_reduce self_attn.q_norm.deviation_gradient before shared_norm_gradient",
                          "all_reduce input_gradient before the end"));
}

TEST(TensorParallel, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const UnitGraph& graph, std::int64_t ranks) -> std::string {
    try {
      lay_out(derive(graph), kTensorParallel, ranks);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const UnitGraph layer = graph_of(tiny("llama_untied"), 1);
  EXPECT_EQ(refusal(layer, 2), "");
  EXPECT_EQ(refusal(layer, 4),
            "the axis kv_heads of 2 does not divide among 4 ranks; split it over a divisor of 2");
  Architecture odd = tiny("llama_untied");
  odd.intermediate = 15;
  EXPECT_EQ(refusal(graph_of(odd, 1), 2),
            "the axis intermediate of 15 does not divide among 2 ranks; split it over a divisor of 15");
}

TEST(VocabularyParallel, AddsUpWhatIsReadAndStatisticsOfLogits) {
  Architecture even = tiny("llama_untied");
  even.vocabulary = 20;
  constexpr std::array<AxisName, 1> kVocabulary = {"vocabulary"};
  const Exchanges embedding = exchanges(fuse(graph_of(even, 0)), kVocabulary);
  EXPECT_THAT(embedding.forward, ElementsAre("all_reduce embedded before the end"));
  EXPECT_THAT(embedding.backward, ElementsAre());
  const Exchanges head = exchanges(fuse(share_columns(graph_of(even, 3), {kVocabulary, 2})), kVocabulary);
  EXPECT_THAT(head.forward, ElementsAre("all_reduce softmax_statistics before parts_loss"));
  // It finds statistics as the forward pass has left them.
  EXPECT_THAT(head.backward, ElementsAre("all_reduce model.norm_gradient before norm_gradient"));
}

TEST(VocabularyParallel, AddsPositionsOnce) {
  Architecture even = tiny("gpt2");
  even.vocabulary = 20;
  const DerivedGraph graph = derive(graph_of(even, 0));
  const UnitLayout layout = lay_out(graph, std::array<AxisName, 1>{"vocabulary"}, 2);
  EXPECT_THAT(layout.forward_nodes.at(0).is_once, ElementsAre(false, false, true, false, false));
  const std::string text = strata::test::layout(graph_of(even, 0), std::array<AxisName, 1>{"vocabulary"});
  EXPECT_THAT(text, HasSubstr("wte.weight_gradient: split on vocabulary\n"));
  EXPECT_THAT(text, HasSubstr("wpe.weight_gradient: whole\n"));
}

TEST(VocabularyParallel, NeedNotDivide) {
  const DerivedGraph graph = derive(graph_of(tiny("llama_untied"), 0));
  constexpr std::array<AxisName, 1> kVocabulary = {"vocabulary"};
  const std::int64_t vocabulary = tiny("llama_untied").vocabulary;
  EXPECT_THROW(lay_out(graph, kVocabulary, 2), ConfigError);
  EXPECT_NO_THROW(lay_out(graph, kVocabulary, 2, kVocabulary));
  try {
    lay_out(graph, kVocabulary, vocabulary - 1, kVocabulary);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the last would have none"));
  }
}

}  // namespace
}  // namespace strata::test
