// Passes of several segments, between which ranks exchange tensors: here of one rank, to whom an exchange
// gives what it has.
// Not in a unity build: it has many names in common with others.
#include "engine/model/graph/unit_pass.h"

#include <gmock/gmock.h>

#include "engine/device/activation.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/model/graph/operators/exchange.h"
#include "engine/model/graph/unit_builder.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

constexpr MicrobatchShape kShape{2, 3};
constexpr std::int64_t kColumns = 8;
const Axis kHidden("hidden", kColumns);

/// x + up(x)·down, with an exchange of the product and one of what leaves the unit.
UnitBuilder::Built unit_with_exchanges() {
  UnitBuilder builder("unit", "");
  const TensorView x = builder.input(kHidden);
  const TensorView up = builder.activate(builder.linear(x, {{"up", kHidden}}), Activation::silu);
  const TensorView down = builder.linear(up, {{"down", kHidden}});
  const auto all_reduce = [&](const TensorView& tensor) {
    builder.node(std::make_shared<ExchangeRule>(ExchangeKind::all_reduce), {tensor});
  };
  all_reduce(down);
  const TensorView sum = builder.add(x, down);
  builder.output(sum);
  all_reduce(sum);
  return builder.finish();
}

UnitGraph without_exchanges(UnitGraph graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.rule->name() == "all_reduce"; });
  return graph;
}

class CutPass : public testing::Test {
 protected:
  std::vector<float> run(const UnitPass& pass, const UnitPass::Exchange& exchange) {
    GuardedMemory input = in_memory(std::vector<float>(kShape.tokens() * kColumns, 0.5F), DType::fp32);
    std::vector<float> weights(static_cast<std::size_t>(built_.unit.elements));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
    GuardedMemory parameter = in_memory(weights, DType::fp32);
    GuardedMemory output(input.size()), workspace(pass.workspace_bytes());
    memory_[Region::input] = input.data();
    memory_[Region::parameter] = parameter.data();
    memory_[Region::output] = output.data();
    memory_[Region::workspace] = workspace.data();
    pass.run(kernels_, memory_, 1, exchange);
    EXPECT_TRUE(output.intact() && workspace.intact());
    return floats_of(output);
  }

  GraphShape shape_ = {.precision = DType::fp32, .microbatch = kShape};
  UnitBuilder::Built built_ = unit_with_exchanges();
  UnitPass cut_{built_.graph, shape_, {}}, whole_{without_exchanges(built_.graph), shape_, {}};
  UnitMemory memory_;
  ReferenceKernels kernels_;
};

TEST_F(CutPass, HasASegmentBetweenTwoExchanges) {
  ASSERT_EQ(whole_.segments().size(), 1U);
  ASSERT_EQ(cut_.segments().size(), 2U);
  std::vector<std::size_t> before;
  for (const PlacedExchange& exchange : cut_.exchanges()) before.push_back(exchange.before);
  EXPECT_THAT(before, ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(cut_.flops(), whole_.flops());
  EXPECT_EQ(cut_.workspace_bytes(), whole_.workspace_bytes());
  EXPECT_TRUE(cut_.segments()[0].touches(Region::parameter));
  EXPECT_FALSE(cut_.segments()[1].touches(Region::parameter));
}

TEST_F(CutPass, GivesTheBitsOfTheWholeOne) {
  const std::vector<float> expected = run(whole_, {});
  EXPECT_EQ(run(cut_, [](const PlacedExchange&) {}), expected);
}

TEST_F(CutPass, ExchangesWhatHasBeenMade) {
  std::vector<Region> regions;
  const std::vector<float> doubled = run(cut_, [&](const PlacedExchange& exchange) {
    regions.push_back(exchange.source.region);
    EXPECT_EQ(exchange.source.size.elements(), kShape.tokens() * kColumns);
    auto* values = reinterpret_cast<float*>(memory_[exchange.source.region] + exchange.source.offset);
    for (std::int64_t i = 0; i < exchange.source.size.elements(); ++i) values[i] *= 2;
  });
  // y = x + d becomes 2·(x + 2·d).
  const std::vector<float> single = run(whole_, {});
  for (std::size_t i = 0; i < single.size(); ++i) EXPECT_FLOAT_EQ(doubled[i], 4 * single[i] - 2 * 0.5F);
  EXPECT_EQ(regions.back(), Region::output);
}

/// Each chunk of rows is exchanged before the next one is made.
TEST_F(CutPass, ExchangesChunkAfterChunk) {
  constexpr std::int64_t kTokens = 64 + 64 + 10;
  UnitBuilder builder("unit", "");
  const TensorView logits = builder.linear(builder.input(kHidden), {{"logits", kHidden}});
  builder.take_in_chunks(logits);
  builder.node(std::make_shared<ExchangeRule>(ExchangeKind::all_reduce), {logits});
  builder.output(builder.scale(logits, 2));
  const UnitBuilder::Built built = builder.finish();
  shape_.microbatch = {1, kTokens};
  shape_.max_chunk_bytes = 1;
  const UnitPass pass(built.graph, shape_, {}), whole(without_exchanges(built.graph), shape_, {});
  EXPECT_EQ(pass.segments().size(), 4U);
  EXPECT_DOUBLE_EQ(pass.flops(), whole.flops());
  std::vector<std::int64_t> rows;
  std::vector<std::size_t> before;
  for (const PlacedExchange& exchange : pass.exchanges()) {
    rows.push_back(exchange.source.size.rows);
    before.push_back(exchange.before);
    EXPECT_TRUE(exchange.is_in_loop);
  }
  EXPECT_THAT(rows, ElementsAre(64, 64, 10));
  EXPECT_THAT(before, ElementsAre(1, 2, 3));

  GuardedMemory input = in_memory(random_values(kTokens * kColumns, 1), DType::fp32);
  GuardedMemory parameter = in_memory(random_values(built.unit.elements, 2), DType::fp32);
  const auto run = [&](const UnitPass& of, float factor) {
    GuardedMemory output(input.size()), workspace(of.workspace_bytes());
    memory_[Region::input] = input.data();
    memory_[Region::parameter] = parameter.data();
    memory_[Region::output] = output.data();
    memory_[Region::workspace] = workspace.data();
    of.run(kernels_, memory_, 1, [&](const PlacedExchange& exchange) {
      auto* values = reinterpret_cast<float*>(memory_[exchange.source.region] + exchange.source.offset);
      for (std::int64_t i = 0; i < exchange.source.size.elements(); ++i) values[i] *= factor;
    });
    EXPECT_TRUE(output.intact() && workspace.intact());
    return floats_of(output);
  };
  const std::vector<float> single = run(whole, 1), doubled = run(pass, 2);
  for (std::size_t i = 0; i < single.size(); ++i) EXPECT_EQ(doubled[i], 2 * single[i]);
}

}  // namespace
}  // namespace strata::test
