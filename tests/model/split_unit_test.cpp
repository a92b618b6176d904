// Units split over ranks: what ranks make of their parts, with the exchanges that their graphs name, is what
// the whole unit makes.
#include "engine/graph/split_unit.h"

#include <gmock/gmock.h>

#include <memory>

#include "base/error.h"
#include "tests/model/tiny_model.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr MicrobatchShape kShape{2, 7};
constexpr double kTolerance = 1e-5;

AxisSplit tensor_split(std::int64_t ranks, std::int64_t rank) {
  return {{"kv_heads", "intermediate"}, ranks, rank};
}

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
  RankOfUnit(const Unit& unit, const DerivedGraph& graph, const GraphShape& shape)
      : unit(unit),
        passes_(make_passes(graph, shape)),
        tally_(in_memory(std::vector<float>(64), DType::fp32)) {}

  const Unit unit;
  std::vector<float> parameter, frozen, input, output_gradient, constants;
  std::vector<float>& values_of(const TensorSpec& tensor) {
    return tensor.flat == Flat::frozen ? frozen : parameter;
  }

  void begin(bool saves) {
    level_ = saves ? &passes_.saving_all() : &passes_.saving_nothing();
    parameter_ = memory_of(Region::parameter, parameter);
    frozen_ = memory_of(Region::frozen, frozen);
    input_ = memory_of(Region::input, input);
    constants_ = memory_of(Region::constants, constants);
    output_gradient_ = memory_of(Region::output_gradient, output_gradient);
    output_ = memory_of(Region::output, input);
    input_gradient_ = memory_of(Region::input_gradient, input);
    gradient_ = memory_of(Region::gradient, std::vector<float>(parameter.size()));
    saved_ = std::make_unique<GuardedMemory>(level_->saved_bytes);
    memory_[Region::saved] = saved_->data();
    memory_[Region::tally] = tally_.data();
  }
  const UnitPass& forward() const { return level_->forward; }
  const UnitPass& backward() const { return level_->backward; }
  void begin(const UnitPass& pass) {
    workspace_ = std::make_unique<GuardedMemory>(pass.workspace_bytes());
    memory_[Region::workspace] = workspace_->data();
  }
  void run(const Segment& segment) { segment.run(kernels_, memory_, 1); }
  std::span<float> values(const Segment::PlacedOperand& operand) {
    return {reinterpret_cast<float*>(memory_[operand.region] + operand.offset),
            static_cast<std::size_t>(operand.size.elements())};
  }
  std::vector<float> output() const { return floats_of(*output_); }
  std::vector<float> input_gradient() const { return floats_of(*input_gradient_); }
  std::vector<float> gradient() const { return floats_of(*gradient_); }

 private:
  std::unique_ptr<GuardedMemory> memory_of(Region region, const std::vector<float>& values) {
    auto memory = std::make_unique<GuardedMemory>(in_memory(values, DType::fp32));
    memory_[region] = memory->data();
    return memory;
  }

  UnitPasses passes_;
  const UnitPasses::Level* level_ = nullptr;
  UnitMemory memory_;
  GuardedMemory tally_;
  std::unique_ptr<GuardedMemory> parameter_, frozen_, input_, constants_, output_gradient_, output_,
      input_gradient_, gradient_, saved_, workspace_;
  ReferenceKernels kernels_;
};

void add_up(std::vector<RankOfUnit>& ranks, const std::vector<const PlacedExchange*>& exchanges) {
  std::vector<float> sum(ranks.front().values(exchanges.front()->source).size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::span<const float> values = ranks[r].values(exchanges[r]->source);
    ASSERT_EQ(values.size(), sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    std::ranges::copy(sum, ranks[r].values(exchanges[r]->source).begin());
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
      add_up(ranks, exchange);
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

std::int64_t ranks_for(const Architecture& architecture) {
  return architecture.kv_heads;  // each its own head
}

void expect_what_the_whole_one_makes(Architecture architecture, const std::vector<std::string>& freeze) {
  architecture.expert_intermediate *= 2;  // so that it divides
  const std::int64_t count = ranks_for(architecture);
  const Model model = build_model(architecture, freeze);
  const UnitCompute compute(model, DType::fp32, kShape);
  std::vector<float> constants(static_cast<std::size_t>(compute.constant_bytes() / 4));
  compute.fill_constants(std::as_writable_bytes(std::span(constants)));
  GraphShape shape = {.precision = DType::fp32, .microbatch = kShape};
  Bytes at = 0;
  for (const Rotation& rotation : model.rotations) {
    for (int table = 0; table < 2; ++table) {
      shape.constants.push_back(at);
      at += rotary_table_bytes(rotation, kShape.sequence);
    }
  }
  for (std::size_t u = 1; u + 1 < model.units.size(); ++u) {
    SCOPED_TRACE(model.units[u].name);
    const DerivedGraph graph = derive(model.graph_of(model.units[u]));
    std::vector<RankOfUnit> whole, ranks;
    whole.emplace_back(model.units[u], graph, shape);
    whole.front().parameter = random_values(model.units[u].elements, 5);
    whole.front().frozen = random_values(model.units[u].frozen_elements, 8);
    for (const TensorSpec& tensor : model.units[u].tensors) {
      for (std::int64_t i = 0; i < tensor.elements; ++i) {
        float& value = whole.front().values_of(tensor)[static_cast<std::size_t>(tensor.offset + i)];
        value = (tensor.init == Init::ones ? 1 : 0) + 0.3F * value;
      }
    }
    for (std::int64_t rank = 0; rank < count; ++rank) {
      const SplitUnit split = split_unit(model.units[u], graph, tensor_split(count, rank));
      RankOfUnit& part = ranks.emplace_back(split.unit, split.graph, shape);
      part.parameter.resize(static_cast<std::size_t>(split.unit.elements));
      part.frozen.resize(static_cast<std::size_t>(split.unit.frozen_elements));
      for (const TensorSpec& own : split.unit.tensors)
        for_each_element(tensor_of(model.units[u], own), own, [&](std::size_t from, std::size_t to) {
          part.values_of(own)[to] = whole.front().values_of(own)[from];
        });
    }
    for (std::vector<RankOfUnit>* group : {&whole, &ranks}) {
      for (RankOfUnit& rank : *group) {
        rank.input = random_values(kShape.tokens() * architecture.hidden, 6);
        rank.output_gradient = random_values(kShape.tokens() * architecture.hidden, 7);
        rank.constants = constants;
      }
    }
    for (const bool saves : {true, false}) {
      for (std::vector<RankOfUnit>* group : {&whole, &ranks}) {
        for (RankOfUnit& rank : *group) rank.begin(saves);
        run_together(*group, &RankOfUnit::forward);
        run_together(*group, &RankOfUnit::backward);
      }
      std::vector<float> gradient(whole.front().parameter.size()), expected = whole.front().gradient();
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        EXPECT_LE(difference(ranks[r].output(), whole.front().output()), kTolerance);
        EXPECT_LE(difference(ranks[r].input_gradient(), whole.front().input_gradient()), kTolerance);
        EXPECT_EQ(ranks[r].output(), ranks.front().output()) << "ranks go on with the same values";
        const std::vector<float> part = ranks[r].gradient();
        for (const TensorSpec& own : ranks[r].unit.tensors) {
          if (own.flat == Flat::frozen) continue;
          const TensorSpec& all = tensor_of(model.units[u], own);
          EXPECT_FALSE(own.is_split() && own.sums_gradient);
          for_each_element(all, own, [&](std::size_t of_whole, std::size_t of_part) {
            if (own.is_split() || own.sums_gradient) {
              gradient[of_whole] += part[of_part];
            } else {
              gradient[of_whole] = part[of_part];
            }
          });
        }
      }
      for (const TensorSpec& tensor : model.units[u].tensors) {
        if (tensor.flat == Flat::frozen) continue;
        const auto of = [&](const std::vector<float>& flat) {
          return std::span(flat).subspan(static_cast<std::size_t>(tensor.offset),
                                         static_cast<std::size_t>(tensor.elements));
        };
        EXPECT_LE(difference(of(gradient), of(expected)), kTolerance) << tensor.hf_name;
      }
    }
  }
}

class SplitUnitOf : public testing::TestWithParam<TinyArchitecture> {};

TEST_P(SplitUnitOf, MakesWhatTheWholeOneMakes) {
  expect_what_the_whole_one_makes(GetParam().architecture, {});
}

TEST_P(SplitUnitOf, MakesWhatTheWholeOneMakesIfSomeIsFrozen) {
  std::vector<std::string> patterns = {"*q_proj.weight", "*k_proj.weight", "*o_proj.weight", "*norm*.weight"};
  if (GetParam().architecture.family == Family::gpt2) patterns = {"*c_attn.weight", "*mlp.c_proj*", "*ln_1*"};
  if (GetParam().name == "phi3") patterns = {"*qkv_proj.weight", "*down_proj.weight"};
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    expect_what_the_whole_one_makes(GetParam().architecture, {pattern});
  }
}

std::vector<TinyArchitecture> architectures_that_split() {
  std::vector<TinyArchitecture> result;
  for (const TinyArchitecture& each : tiny_architectures())
    if (each.name != "olmo2") result.push_back(each);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Architectures, SplitUnitOf, testing::ValuesIn(architectures_that_split()),
                         [](const auto& info) { return info.param.name; });

/// Its norms of queries and keys are over all heads, so ranks would gather these.
TEST(SplitUnit, TakesSumsOnly) {
  for (const TinyArchitecture& each : tiny_architectures()) {
    if (each.name != "olmo2") continue;
    const Model model = build_model(each.architecture);
    EXPECT_THROW(split_unit(model.units[1], derive(model.graph_of(model.units[1])), tensor_split(2, 0)),
                 ConfigError);
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
