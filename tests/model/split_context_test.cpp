// Units of ranks that share sequences: what they make of their tokens, with keys and values that go round,
// is what one rank makes of all.
#include "engine/model/split_context.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/context_part.h"
#include "engine/model/build_model.h"
#include "engine/model/graph/within_documents.h"
#include "engine/model/model.h"
#include "tests/model/tiny_model.h"

namespace strata::test {
namespace {

constexpr std::int64_t kBatch = 2, kSequence = 24;
constexpr double kTolerance = 1e-5;

/// A unit on one rank, in memory of its own.
class RankOfUnit {
 public:
  RankOfUnit(const Model& whole, std::size_t unit, const ContextPart& part, bool saves)
      : part_(part),
        rows_(kSequence / part.ranks),
        model_(split_context(whole, part)),
        compute_(model_, DType::fp32, {kBatch, rows_}),
        level_(saves ? compute_.passes(unit_of(unit)).saving_all()
                     : compute_.passes(unit_of(unit)).saving_nothing()),
        elements_(unit_of(unit).elements) {}

  void give(Region region, const std::vector<float>& values) {
    auto& memory = regions_[region] = std::make_unique<GuardedMemory>(in_memory(values, DType::fp32));
    memory_[region] = memory->data();
  }
  /// Its rows of what a whole microbatch has.
  void give_rows(Region region, const std::vector<float>& whole) {
    std::vector<float> own;
    const auto columns = whole.size() / static_cast<std::size_t>(kBatch * kSequence);
    for (const std::int64_t row : rows()) {
      const auto first = whole.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * columns);
      own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(columns));
    }
    give(region, own);
  }
  /// Where its rows are in the whole microbatch, in the order of its own.
  std::vector<std::int64_t> rows() const {
    std::vector<std::int64_t> rows;
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::int64_t t = 0; t < rows_; ++t) rows.push_back(b * kSequence + part_.positions(rows_).at(t));
    return rows;
  }
  std::vector<float> values(Region region) const { return floats_of(*regions_.at(region)); }

  void begin() {
    give(Region::gradient, std::vector<float>(static_cast<std::size_t>(elements_)));
    std::vector<float> constants(static_cast<std::size_t>(compute_.constant_bytes() / 4));
    compute_.fill_constants(std::as_writable_bytes(std::span(constants)));
    give(Region::constants, constants);
    give_bytes(Region::saved, level_.saved_bytes);
    give_bytes(Region::pending, level_.pending_bytes);
    give(Region::tally, std::vector<float>(static_cast<std::size_t>(compute_.tally_elements())));
    give(Region::loss_scale, {1});
  }
  void begin(const UnitPass& pass) {
    give_bytes(Region::workspace, pass.workspace_bytes());
    for (std::size_t i = 0; i < kRings; ++i) give_bytes(ring_region(i), pass.ring_bytes(i));
  }
  void run(const Segment& segment) {
    segment.run(kernels_, memory_, 1);
    for (const auto& [region, memory] : regions_) EXPECT_TRUE(memory->intact()) << static_cast<int>(region);
  }
  std::span<float> values(const Segment::PlacedOperand& operand) {
    return {reinterpret_cast<float*>(memory_[operand.region] + operand.offset),
            static_cast<std::size_t>(operand.size.elements())};
  }
  const UnitPasses::Level& level() const { return level_; }

 private:
  const Unit& unit_of(std::size_t unit) const { return model_.units[unit]; }
  void give_bytes(Region region, Bytes bytes) {
    auto& memory = regions_[region] = std::make_unique<GuardedMemory>(bytes);
    memory_[region] = memory->data();
  }

  ContextPart part_;
  std::int64_t rows_;
  Model model_;
  UnitCompute compute_;
  const UnitPasses::Level& level_;
  std::int64_t elements_;
  UnitMemory memory_;
  std::map<Region, std::unique_ptr<GuardedMemory>> regions_;
  ReferenceKernels kernels_;
};

using Ranks = std::vector<std::unique_ptr<RankOfUnit>>;

void shift(Ranks& ranks, const PlacedExchange& exchange) {
  ASSERT_EQ(exchange.kind, ExchangeKind::ring_shift);
  std::vector<std::vector<float>> sent;
  for (const auto& rank : ranks) {
    const std::span<const float> values = rank->values(exchange.source);
    sent.emplace_back(values.begin(), values.end());
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    std::ranges::copy(sent[r], ranks[(r + 1) % ranks.size()]->values(exchange.destination).begin());
}

void run_together(Ranks& ranks, const UnitPass UnitPasses::Level::*pass) {
  const UnitPass& first = ranks.front()->level().*pass;
  for (const auto& rank : ranks) rank->begin(rank->level().*pass);
  auto next = first.exchanges().begin();
  for (std::size_t s = 0; s <= first.segments().size(); ++s) {
    for (; next != first.exchanges().end() && next->before == s; ++next) shift(ranks, *next);
    if (s == first.segments().size()) break;
    for (const auto& rank : ranks) rank->run((rank->level().*pass).segments()[s]);
  }
}

/// As the unit that makes the loss does.
void add_up_tallies(Ranks& ranks) {
  std::vector<float> sum = ranks.front()->values(Region::tally);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<float> part = ranks[r]->values(Region::tally);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (const auto& rank : ranks) rank->give(Region::tally, sum);
}

/// The largest difference as a part of the largest value.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, size = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::isnan(a[i]) ? INFINITY : std::max(largest, std::abs(double{a[i]} - b[i]));
    size = std::max(size, std::abs(double{b[i]}));
  }
  return largest / size;
}

/// What ranks have in their rows, as one has it.
std::vector<float> together(const Ranks& ranks, Region region) {
  std::vector<float> whole;
  for (const auto& rank : ranks) {
    const std::vector<float> own = rank->values(region);
    const std::vector<std::int64_t> rows = rank->rows();
    const std::size_t columns = own.size() / rows.size();
    whole.resize(static_cast<std::size_t>(kBatch * kSequence) * columns);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(i * columns), columns,
                  whole.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows[i]) * columns));
  }
  return whole;
}

/// Places of tokens of documents that fill both sequences; in a tensor's memory.
std::vector<float> places_in_documents() {
  std::vector<float> places;
  for (const std::int32_t length : {7, 1, 16, 3, 20, 1})
    for (std::int32_t place = 0; place < length; ++place) places.push_back(std::bit_cast<float>(place));
  return places;
}

class SplitContextLongTest : public testing::TestWithParam<TinyArchitecture> {
 protected:
  static void expect_what_one_rank_makes(const Model& model);
};

// Invariant (SplitContextLongTest.*): Shared sequences are one run.
TEST_P(SplitContextLongTest, MakesWhatOneRankMakes) {
  expect_what_one_rank_makes(build_model(GetParam().architecture));
}

TEST_P(SplitContextLongTest, MakesWhatOneRankMakesOfDocuments) {
  expect_what_one_rank_makes(build_model(GetParam().architecture, {.form = {.within_documents = true}}));
}

void SplitContextLongTest::expect_what_one_rank_makes(const Model& model) {
  const Architecture& architecture = model.architecture;
  for (std::size_t u = 1; u + 1 < model.units.size(); ++u) {
    std::vector<float> parameter = random_values(model.units[u].elements, 5);
    for (const TensorSpec& tensor : model.units[u].tensors) {
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i) {
        float& value = parameter[static_cast<std::size_t>(i)];
        value = (tensor.init == Init::ones ? 1 : 0) + 0.3F * value;
      }
    }
    const auto run = [&](std::int64_t count, bool saves, bool in_two) {
      Ranks ranks;
      for (std::int64_t r = 0; r < count; ++r) {
        RankOfUnit& rank =
            *ranks.emplace_back(std::make_unique<RankOfUnit>(model, u, ContextPart{count, r}, saves));
        rank.give(Region::parameter, parameter);
        const std::int64_t values = kBatch * kSequence * architecture.hidden;
        rank.give_rows(Region::input, random_values(values, 6));
        rank.give_rows(data_region(kPlacesArray), places_in_documents());
        rank.give_rows(Region::output_gradient, random_values(values, 7));
        rank.give_rows(Region::output, std::vector<float>(static_cast<std::size_t>(values)));
        rank.give_rows(Region::input_gradient, std::vector<float>(static_cast<std::size_t>(values)));
        rank.begin();
      }
      run_together(ranks, &UnitPasses::Level::forward);
      add_up_tallies(ranks);
      if (in_two) {
        run_together(ranks, &UnitPasses::Level::input_gradient);
        run_together(ranks, &UnitPasses::Level::weight_gradient);
      } else {
        run_together(ranks, &UnitPasses::Level::backward);
      }
      return ranks;
    };
    const Ranks one = run(1, true, false);
    struct Case {
      std::int64_t ranks;
      bool saves, in_two;
    };
    std::vector<Case> cases = {{2, true, true}, {3, true, false}};
    if (!model.form.within_documents)
      cases.insert(cases.end(), {{2, false, false}, {4, false, true}, {4, true, false}});
    for (const auto& [count, saves, in_two] : cases) {
      SCOPED_TRACE(testing::Message() << model.units[u].name << " on " << count << " ranks"
                                      << (saves ? ", saved" : "") << (in_two ? ", in two" : ""));
      const Ranks ranks = run(count, saves, in_two);
      EXPECT_LE(difference(ranks[0]->values(Region::tally), one[0]->values(Region::tally)), kTolerance);
      for (const Region region : {Region::output, Region::input_gradient})
        EXPECT_LE(difference(together(ranks, region), one[0]->values(region)), kTolerance);
      std::vector<float> gradient(parameter.size());
      for (const auto& rank : ranks) {
        const std::vector<float> part = rank->values(Region::gradient);
        for (std::size_t i = 0; i < part.size(); ++i) gradient[i] += part[i];
      }
      EXPECT_LE(difference(gradient, one[0]->values(Region::gradient)), kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, SplitContextLongTest, testing::ValuesIn(tiny_architectures()),
                         [](const auto& info) { return info.param.name; });

TEST(SplitContext, SharesOutPositionsFromBothEnds) {
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    std::vector<int> owners(24);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Positions positions = ContextPart{ranks, rank}.positions(24 / ranks);
      std::int64_t sum = 0;
      for (std::int64_t t = 0; t < positions.rows; ++t) {
        ++owners[static_cast<std::size_t>(positions.at(t))];
        sum += positions.at(t);
        EXPECT_EQ(positions.below(positions.at(t)), t);
        EXPECT_EQ(positions.below(positions.at(t) + 1), t + 1);
      }
      EXPECT_EQ(2 * sum * ranks, 24 * 23) << "all see equally many keys";
    }
    EXPECT_THAT(owners, testing::Each(1));
  }
}

}  // namespace
}  // namespace strata::test
