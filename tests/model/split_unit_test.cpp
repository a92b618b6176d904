// Units split over ranks: what ranks make of their parts, with the exchanges that their graphs name, is what
// the whole unit makes.
// Not in a unity build: it has many names in common with others.
#include "engine/model/graph/split_unit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"
#include "optim/update_rule.h"
#include "tests/model/tiny_model.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Parts of its tokens do not end where sequences do.
constexpr MicrobatchShape kShape{3, 4};
constexpr MicrobatchShape kLongShape{6, 24};  ///< logits of three chunks
constexpr double kTolerance = 1e-5;

/// Calls visit(element of the whole tensor, element of the rank's part).
template <typename Visit>
void for_each_element(const TensorSpec& whole, const TensorSpec& part, const Visit& visit) {
  const std::int64_t columns = whole.hf_shape.back(), rows = whole.elements / columns;
  const bool is_split = part.is_split();
  std::int64_t at = 0;
  for (const Stretch& of_rows : is_split ? part.rows : std::vector<Stretch>{{0, rows}}) {
    for (std::int64_t row = of_rows.first; row < of_rows.first + of_rows.count; ++row) {
      for (const Stretch& stretch : is_split ? part.columns : std::vector<Stretch>{{0, columns}}) {
        for (std::int64_t column = stretch.first; column < stretch.first + stretch.count; ++column)
          visit(static_cast<std::size_t>(whole.offset + row * columns + column),
                static_cast<std::size_t>(part.offset + at++));
      }
    }
  }
  EXPECT_EQ(at, part.elements) << part.hf_name;
}

const TensorSpec& tensor_of(const Unit& unit, const TensorSpec& part) {
  return *std::ranges::find(unit.tensors, part.hf_name, &TensorSpec::hf_name);
}

/// A unit on one rank, in memory of its own.
class RankOfUnit {
 public:
  /// `owner`: of the parameters that it shares, if it does.
  RankOfUnit(const Unit& unit, const Unit* owner, const DerivedGraph& graph, const GraphShape& shape)
      : unit(unit), passes_(make_passes(graph, shape)) {
    parts_.push_back({unit, std::vector<float>(static_cast<std::size_t>(unit.elements)),
                      std::vector<float>(static_cast<std::size_t>(unit.frozen_elements))});
    if (owner != nullptr)
      parts_.push_back({*owner, std::vector<float>(static_cast<std::size_t>(owner->elements)),
                        std::vector<float>(static_cast<std::size_t>(owner->frozen_elements))});
  }

  /// The unit, or the owner of what it shares.
  struct Part {
    Unit unit;
    std::vector<float> parameter, frozen;
    std::vector<float>& values_of(const TensorSpec& tensor) {
      return tensor.flat == Flat::frozen ? frozen : parameter;
    }
  };
  const Unit unit;
  std::vector<Part>& parts() { return parts_; }

  /// What every rank is given.
  struct Given {
    std::vector<float> input, output_gradient, constants;
    std::vector<std::int32_t> tokens, targets, row_keys;
  };
  void begin(const Given& given, bool saves) {
    level_ = saves ? &passes_.saving_all() : &passes_.saving_nothing();
    add(Region::parameter, parts_.front().parameter);
    add(Region::frozen, parts_.front().frozen);
    add(Region::gradient, std::vector<float>(parts_.front().parameter.size()));
    if (parts_.size() > 1) {
      add(Region::shared_parameter, parts_.back().parameter);
      add(Region::shared_frozen, parts_.back().frozen);
      add(Region::shared_gradient, std::vector<float>(parts_.back().parameter.size()));
    }
    add(Region::input, given.input);
    add(Region::constants, given.constants);
    add(Region::output_gradient, given.output_gradient);
    add(Region::output, given.input);
    add(Region::input_gradient, given.input);
    add(Region::losses, std::vector<float>(given.tokens.size()));
    add(Region::tally, std::vector<float>(64, 1.0F));
    add_indices(Region::data_0, given.tokens);
    add_indices(Region::data_1, given.targets);
    add_indices(data_region(row_keys_array(false)), given.row_keys);
    memory_[Region::saved] = place(Region::saved, GuardedMemory(level_->saved_bytes));
  }
  const UnitPass& forward() const { return level_->forward; }
  const UnitPass& backward() const { return level_->backward; }
  void begin(const UnitPass& pass) {
    memory_[Region::workspace] = place(Region::workspace, GuardedMemory(pass.workspace_bytes()));
  }
  void run(const Segment& segment) { segment.run(kernels_, memory_, 1); }
  std::span<float> values(const Segment::PlacedOperand& operand) {
    return {reinterpret_cast<float*>(memory_[operand.region] + operand.offset),
            static_cast<std::size_t>(operand.size.elements())};
  }
  std::vector<float> values(Region region) const {
    return floats_of(*memories_[static_cast<std::size_t>(region)]);
  }

 private:
  std::byte* place(Region region, GuardedMemory memory) {
    std::unique_ptr<GuardedMemory>& place = memories_[static_cast<std::size_t>(region)];
    place = std::make_unique<GuardedMemory>(std::move(memory));
    return place->data();
  }
  void add(Region region, const std::vector<float>& values) {
    memory_[region] = place(region, in_memory(values, DType::fp32));
  }
  void add_indices(Region region, const std::vector<std::int32_t>& values) {
    memory_[region] = place(region, GuardedMemory(std::ssize(values) * 4));
    std::ranges::copy(std::as_bytes(std::span(values)), memory_[region]);
  }

  UnitPasses passes_;
  std::vector<Part> parts_;
  const UnitPasses::Level* level_ = nullptr;
  UnitMemory memory_;
  std::array<std::unique_ptr<GuardedMemory>, kRegions> memories_;
  ReferenceKernels kernels_;
};

void exchange(std::vector<RankOfUnit>& ranks, const std::vector<const PlacedExchange*>& exchanges) {
  const bool gathers = exchanges.front()->kind == ExchangeKind::all_gather;
  std::vector<float> all;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::span<const float> values = ranks[r].values(exchanges[r]->source);
    if (gathers || r == 0) {
      all.insert(all.end(), values.begin(), values.end());
    } else {
      ASSERT_EQ(values.size(), all.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += values[i];
    }
  }
  const bool scatters = exchanges.front()->kind == ExchangeKind::reduce_scatter;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::span<float> made = ranks[r].values(exchanges[r]->destination);
    ASSERT_EQ(made.size() * (scatters ? ranks.size() : 1), all.size());
    std::ranges::copy(std::span(all).subspan(scatters ? r * made.size() : 0, made.size()), made.begin());
  }
}

/// A rank's part of tokens.
std::vector<float> part_of(const std::vector<float>& all, std::int64_t parts, std::int64_t part) {
  const auto count = std::ssize(all) / parts;
  return {all.begin() + part * count, all.begin() + (part + 1) * count};
}

void run_together(std::vector<RankOfUnit>& ranks, const UnitPass& (RankOfUnit::*pass)() const) {
  const std::size_t segments = (ranks.front().*pass)().segments().size();
  const std::size_t exchanges = (ranks.front().*pass)().exchanges().size();
  for (RankOfUnit& rank : ranks) {
    rank.begin((rank.*pass)());
    ASSERT_EQ((rank.*pass)().segments().size(), segments);
    ASSERT_EQ((rank.*pass)().exchanges().size(), exchanges);
  }
  std::size_t next = 0;
  for (std::size_t s = 0; s <= segments; ++s) {
    for (; next < exchanges && (ranks.front().*pass)().exchanges()[next].before == s; ++next) {
      std::vector<const PlacedExchange*> exchange;
      exchange.reserve(ranks.size());
      for (RankOfUnit& rank : ranks) exchange.push_back(&(rank.*pass)().exchanges()[next]);
      strata::test::exchange(ranks, exchange);
    }
    if (s == segments) break;
    for (RankOfUnit& rank : ranks) rank.run((rank.*pass)().segments()[s]);
  }
}

/// The largest difference as a part of the largest value.
double difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0, size = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - b[i]));
    size = std::max(size, std::abs(double{b[i]}));
  }
  return largest / size;
}

GraphShape shape_of(const Model& model, const MicrobatchShape& microbatch) {
  GraphShape shape = {.precision = DType::fp32, .microbatch = microbatch, .max_chunk_bytes = 1};
  Bytes at = 0;
  for (const Rotation& rotation : model.rotations) {
    for (int table = 0; table < 2; ++table) {
      shape.constants.push_back(at);
      at += rotary_table_bytes(rotation, microbatch.sequence);
    }
  }
  return shape;
}

RankOfUnit::Given given_to(const Model& model, const MicrobatchShape& microbatch) {
  const UnitCompute compute(model, DType::fp32, microbatch);
  const std::int64_t tokens = microbatch.tokens(), hidden = model.architecture.hidden;
  RankOfUnit::Given given = {
      .input = random_values(tokens * hidden, 6),
      .output_gradient = random_values(tokens * hidden, 7),
      .constants = std::vector<float>(static_cast<std::size_t>(compute.constant_bytes() / 4)),
      .tokens = random_tokens(tokens, model.architecture.vocabulary, 1),
      .targets = random_tokens(tokens, model.architecture.vocabulary, 2),
      .row_keys = random_tokens(tokens, 1 << 30, 3)};
  compute.fill_constants(std::as_writable_bytes(std::span(given.constants)));
  return given;
}

void fill(RankOfUnit::Part& part, std::uint64_t seed) {
  part.parameter = random_values(part.unit.elements, seed);
  part.frozen = random_values(part.unit.frozen_elements, seed + 1);
  for (const TensorSpec& tensor : part.unit.tensors) {
    for (std::int64_t i = 0; i < tensor.elements; ++i) {
      float& value = part.values_of(tensor)[static_cast<std::size_t>(tensor.offset + i)];
      value = (tensor.init == Init::ones ? 1 : 0) + 0.3F * value;
    }
  }
}

void take_part(RankOfUnit::Part& whole, RankOfUnit::Part& part) {
  for (const TensorSpec& own : part.unit.tensors)
    for_each_element(tensor_of(whole.unit, own), own, [&](std::size_t from, std::size_t to) {
      part.values_of(own)[to] = whole.values_of(own)[from];
    });
}

/// What all ranks' gradients are together.
std::vector<float> join(std::vector<RankOfUnit>& ranks, const Unit& whole, std::size_t number,
                        Region gradient) {
  std::vector<float> joined(static_cast<std::size_t>(whole.elements));
  for (RankOfUnit& rank : ranks) {
    const std::vector<float> part = rank.values(gradient);
    for (const TensorSpec& own : rank.parts()[number].unit.tensors) {
      if (own.flat == Flat::frozen) continue;
      for_each_element(tensor_of(whole, own), own, [&](std::size_t of_whole, std::size_t of_part) {
        const bool sums = own.is_split() || own.summed_ranks > 1;
        joined[of_whole] = (sums ? joined[of_whole] : 0) + part[of_part];
      });
    }
  }
  return joined;
}

void expect_what_the_whole_unit_makes(const Model& model, const std::vector<Model>& parts, std::size_t u,
                                      const MicrobatchShape& microbatch, bool splits_tokens) {
  const auto owner_in = [&](const Model& each) {
    const std::int32_t shared = each.units[u].shares;
    return shared < 0 ? nullptr : &each.units[static_cast<std::size_t>(shared)];
  };
  const Unit& unit = model.units[u];
  SCOPED_TRACE(unit.name);
  const GraphShape shape = shape_of(model, microbatch);
  const RankOfUnit::Given given = given_to(model, microbatch);
  std::vector<RankOfUnit> whole, ranks;
  whole.emplace_back(unit, owner_in(model), derive(model.graph_of(unit)), shape);
  for (RankOfUnit::Part& part : whole.front().parts()) fill(part, 5);
  for (const Model& part : parts) {
    const Unit& own = part.units[u];
    RankOfUnit& added = ranks.emplace_back(own, owner_in(part), part.passes[own.kind], shape);
    for (std::size_t p = 0; p < added.parts().size(); ++p)
      take_part(whole.front().parts()[p], added.parts()[p]);
  }
  const std::int64_t count = std::ssize(ranks), token_parts = splits_tokens ? count : 1;
  std::vector<RankOfUnit::Given> given_to_ranks(ranks.size(), given);
  for (std::int64_t r = 0; r < count; ++r) {
    RankOfUnit::Given& of_rank = given_to_ranks[static_cast<std::size_t>(r)];
    for (std::vector<float>* values : {&of_rank.input, &of_rank.output_gradient})
      *values = part_of(*values, token_parts, r % token_parts);
  }
  const auto begin = [&](bool saves) {
    whole.front().begin(given, saves);
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].begin(given_to_ranks[r], saves);
  };
  const bool is_head = u + 1 == model.units.size();
  for (const bool saves : {true, false}) {
    begin(saves);
    for (std::vector<RankOfUnit>* group : {&whole, &ranks}) run_together(*group, &RankOfUnit::forward);
    const auto expect_equal = [&](Region region) {
      const bool is_split = splits_tokens && region != Region::losses;
      for (std::int64_t r = 0; r < count; ++r) {
        const std::vector<float> all = whole.front().values(region),
                                 found = ranks[static_cast<std::size_t>(r)].values(region);
        EXPECT_LE(difference(found, is_split ? part_of(all, count, r) : all), kTolerance);
        if (is_split) continue;
        EXPECT_EQ(found, ranks.front().values(region)) << "ranks go on with the same values";
      }
    };
    expect_equal(is_head ? Region::losses : Region::output);
    if (is_head) begin(saves);
    for (std::vector<RankOfUnit>* group : {&whole, &ranks}) run_together(*group, &RankOfUnit::backward);
    if (is_head) expect_equal(Region::losses);
    if (u > 0) expect_equal(Region::input_gradient);
    for (std::size_t p = 0; p < whole.front().parts().size(); ++p) {
      const Region region = p == 0 ? Region::gradient : Region::shared_gradient;
      const Unit& all = whole.front().parts()[p].unit;
      const std::vector<float> found = join(ranks, all, p, region), expected = whole.front().values(region);
      for (const TensorSpec& tensor : all.tensors) {
        if (tensor.flat == Flat::frozen) continue;
        const auto of = [&](const std::vector<float>& flat) {
          return std::span(flat).subspan(static_cast<std::size_t>(tensor.offset),
                                         static_cast<std::size_t>(tensor.elements));
        };
        EXPECT_LE(difference(of(found), of(expected)), kTolerance) << tensor.hf_name;
      }
    }
  }
}

AdapterSection small_adapters(AdapterType type = AdapterType::lora) {
  AdapterSection adapter;
  adapter.type = type;
  adapter.rank = 3;
  return adapter;
}

void expect_what_the_whole_one_makes(Architecture architecture, std::int64_t ranks,
                                     const std::vector<std::string>& freeze, bool splits_tokens = false,
                                     const AdapterSection& adapter = {}) {
  SCOPED_TRACE(fmt::format("frozen: {}", fmt::join(freeze, ", ")));
  architecture.expert_intermediate *= 2;  // so that it divides
  const Model model = build_model(architecture, {.adapter = adapter, .freeze = freeze});
  std::vector<Model> parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    parts.push_back(split_model(model, tensor_split(ranks, rank, splits_tokens)));
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const bool is_layer = 0 < u && u + 1 < model.units.size();
    expect_what_the_whole_unit_makes(model, parts, u, is_layer ? kShape : kLongShape, splits_tokens);
  }
}

class SplitUnitLongTest : public testing::TestWithParam<TinyArchitecture> {};

// Invariant (SplitUnitLongTest.*): Tensor-parallel layers are one run.
TEST_P(SplitUnitLongTest, MakesWhatTheWholeOneMakes) {
  const Architecture& architecture = GetParam().architecture;
  expect_what_the_whole_one_makes(architecture, architecture.kv_heads, {});
}

TEST_P(SplitUnitLongTest, MakesWhatTheWholeOneMakesOfPartsOfTokens) {
  const Architecture& architecture = GetParam().architecture;
  expect_what_the_whole_one_makes(architecture, architecture.kv_heads, {}, /*splits_tokens=*/true);
}

TEST_P(SplitUnitLongTest, MakesWhatTheWholeOneMakesIfSomeIsFrozen) {
  std::vector<std::string> patterns = {"*q_proj.weight", "*k_proj.weight", "*o_proj.weight", "*norm*.weight",
                                       "*embed_tokens.weight"};
  if (GetParam().architecture.family == Family::gpt2)
    patterns = {"*c_attn.weight", "*mlp.c_proj*", "*ln_1*", "*wte.weight", "*wpe.weight"};
  if (GetParam().name == "phi3") patterns = {"*qkv_proj.weight", "*down_proj.weight"};
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    for (const bool splits_tokens : {false, true})
      expect_what_the_whole_one_makes(GetParam().architecture, GetParam().architecture.kv_heads, {pattern},
                                      splits_tokens);
  }
}

// Invariant: Adapters are those of PEFT and nothing else is trained.
TEST_P(SplitUnitLongTest, MakesWhatTheWholeOneMakesWithAdapters) {
  for (const bool splits_tokens : {false, true})
    expect_what_the_whole_one_makes(GetParam().architecture, GetParam().architecture.kv_heads, {},
                                    splits_tokens, small_adapters());
}

/// Each head of keys on two ranks, which have a query head each and sum the gradients of its weights.
TEST_P(SplitUnitLongTest, MakesWhatTheWholeOneMakesWithCopiesOfKeys) {
  Architecture architecture = GetParam().architecture;
  if (architecture.heads == architecture.kv_heads) GTEST_SKIP() << "has no fewer heads of keys";
  architecture.heads = 4;
  architecture.kv_heads = 2;
  architecture.intermediate = 16;
  architecture.expert_intermediate *= 2;
  if (GetParam().name == "phi3") {
    EXPECT_THROW(split_model(build_model(architecture), tensor_split(4, 0)), ConfigError);
    return;
  }
  expect_what_the_whole_one_makes(architecture, 4, {});
  expect_what_the_whole_one_makes(architecture, 4, {"*k_proj.weight"});
  expect_what_the_whole_one_makes(architecture, 4, {}, /*splits_tokens=*/true);
}

INSTANTIATE_TEST_SUITE_P(Architectures, SplitUnitLongTest, testing::ValuesIn(tiny_architectures()),
                         [](const auto& info) { return info.param.name; });

/// Ranks share the outputs of one layer and the inputs of the other.
// Invariant (SplitMagnitudesLongTest.*): Adapters are those of PEFT and nothing else is trained.
TEST(SplitMagnitudesLongTest, MakeWhatTheWholeOnesMake) {
  using Targets = std::vector<std::string>;
  const std::vector<TinyArchitecture> all = tiny_architectures();
  for (const auto& [name, targets] : {std::pair("gpt2", Targets{"c_attn", "attn.c_proj"}),
                                      std::pair("llama_untied", Targets{"k_proj", "down_proj"}),
                                      std::pair("phi3", Targets{"qkv_proj", "o_proj"})}) {
    SCOPED_TRACE(name);
    AdapterSection adapter = small_adapters(AdapterType::dora);
    adapter.targets = targets;
    const Architecture& architecture =
        std::ranges::find(all, std::string(name), &TinyArchitecture::name)->architecture;
    for (const bool splits_tokens : {false, true})
      expect_what_the_whole_one_makes(architecture, architecture.kv_heads, {}, splits_tokens, adapter);
  }
}

/// Adapters may have it, and parts of models whose config.json has keys for it.
// Invariant (SplitDropoutLongTest.*): Dropout depends on the place in the run alone.
TEST(SplitDropoutLongTest, DropsWhatTheWholeOneDrops) {
  const std::vector<TinyArchitecture> all = tiny_architectures();
  AdapterSection adapter = small_adapters();
  adapter.dropout = 0.5;
  for (const char* name : {"gpt2", "phi3", "olmo2", "mixtral"}) {
    SCOPED_TRACE(name);
    Architecture architecture = std::ranges::find(all, name, &TinyArchitecture::name)->architecture;
    architecture.embedding_dropout = architecture.residual_dropout = 0.25;
    for (const bool splits_tokens : {false, true}) {
      expect_what_the_whole_one_makes(architecture, architecture.kv_heads, {}, splits_tokens);
      expect_what_the_whole_one_makes(architecture, architecture.kv_heads, {}, splits_tokens, adapter);
    }
  }
}

/// all_reduces, reduce_scatters and all_gathers.
std::array<int, 3> exchanges_of(const UnitPass& pass) {
  std::array<int, 3> counts = {};
  for (const PlacedExchange& exchange : pass.exchanges()) ++counts[static_cast<std::size_t>(exchange.kind)];
  return counts;
}

/// Exchanges of a layer: forward, backward, and backward with the forward pass made again, whose last sum
/// nobody needs.
// Invariant (SplitTokens.*): Tensor-parallel layers are one run.
TEST(SplitTokens, ExchangeWhatTheFormulasSay) {
  const std::vector<TinyArchitecture> all = tiny_architectures();
  for (const char* name : {"gpt2", "llama_untied"}) {
    SCOPED_TRACE(name);
    const Model model = build_model(std::ranges::find(all, name, &TinyArchitecture::name)->architecture);
    const auto passes = [&](bool splits_tokens) {
      const Model part = split_model(model, tensor_split(model.architecture.kv_heads, 0, splits_tokens));
      return UnitCompute(part, DType::fp32, kShape).passes(part.units[1]);
    };
    const UnitPasses whole = passes(false), parts = passes(true);
    EXPECT_THAT(exchanges_of(whole.saving_all().forward), ElementsAre(2, 0, 0));
    EXPECT_THAT(exchanges_of(whole.saving_all().backward), ElementsAre(2, 0, 0));
    EXPECT_THAT(exchanges_of(whole.saving_nothing().backward), ElementsAre(3, 0, 0));
    EXPECT_THAT(exchanges_of(parts.saving_all().forward), ElementsAre(0, 2, 2));
    EXPECT_THAT(exchanges_of(parts.saving_all().backward), ElementsAre(0, 2, 4));
    EXPECT_EQ(exchanges_of(parts.saving_nothing().backward)[1], 3);
    EXPECT_GE(exchanges_of(parts.saving_nothing().backward)[2], 4);
    EXPECT_LE(exchanges_of(parts.saving_nothing().backward)[2], 6);
  }
}

/// What is saved is shared out with the tokens: norms' inputs, too, which all ranks have without that.
TEST(SplitTokens, ShareOutAllThatIsSaved) {
  constexpr MicrobatchShape kEven{3, 64};
  for (const char* name : {"gpt2", "llama_untied", "gemma2", "qwen3", "olmo2"}) {
    SCOPED_TRACE(name);
    const std::vector<TinyArchitecture> all = tiny_architectures();
    const Model model = build_model(std::ranges::find(all, name, &TinyArchitecture::name)->architecture);
    const std::int64_t ranks = model.architecture.kv_heads;
    const Model part = split_model(model, tensor_split(ranks, 0, true));
    const UnitCompute whole(model, DType::fp32, kEven), of_rank(part, DType::fp32, kEven);
    EXPECT_EQ(ranks * of_rank.input_bytes(part.units[1]), whole.input_bytes(model.units[1]));
    EXPECT_NEAR(static_cast<double>(ranks * of_rank.passes(part.units[1]).saving_all().saved_bytes),
                static_cast<double>(whole.passes(model.units[1]).saving_all().saved_bytes),
                static_cast<double>(8 * ranks * 256));
  }
}

TEST(SplitUnit, HasStretchesOfFusedProjections) {
  const Axis queries = Axis("kv_heads", 4) * Axis("queries", 2) * Axis(kUncut, 8);
  const Axis keys = Axis("kv_heads", 4) * Axis(kUncut, 8);
  EXPECT_THAT(stretches_of(queries | keys, tensor_split(2, 1)),
              ElementsAre(Stretch{32, 32}, Stretch{80, 16}));
  EXPECT_THAT(stretches_of(Axis("experts", 2) * Axis("intermediate", 6), tensor_split(3, 1)),
              ElementsAre(Stretch{2, 2}, Stretch{8, 2}));
  EXPECT_THAT(stretches_of(Axis("hidden", 6), tensor_split(3, 1)), ElementsAre(Stretch{0, 6}));
}

}  // namespace
}  // namespace strata::test
