#include "engine/input/data/mixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/input/data/batch_loader.h"
#include "engine/input/data/training_data.h"
#include "tests/base/expect_error.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> shares(const std::vector<double>& weights) {
  return shares_of(weights);
}

// Invariant of data (Mixture*.*): Every stretch of a run has its mixture. After any number of samples each
// source has its share within one sample. Sources have their own epochs, and a resumed run continues with the
// next sample of each.
TEST(MixtureShares, AreTheWeightsExactlyWhereTheyAreDecimal) {
  EXPECT_THAT(shares({0.7, 0.3}), ElementsAre(7, 3));
  EXPECT_THAT(shares({1, 1, 1}), ElementsAre(1, 1, 1));
  EXPECT_THAT(shares({250, 50}), ElementsAre(5, 1));
  EXPECT_THAT(shares({0.5, 0.25, 0.125, 0.125}), ElementsAre(4, 2, 1, 1));
  EXPECT_THAT(shares({5}), ElementsAre(1));
  EXPECT_THAT(shares({999999, 1}), ElementsAre(999999, 1));
}

TEST(MixtureShares, AreWithinAMillionthElsewhere) {
  const std::vector<double> weights = {1.0 / 3, std::sqrt(2), 1e-4, 17};
  const std::vector<std::int64_t> rounded = shares(weights);
  const auto cycle = static_cast<double>(std::reduce(rounded.begin(), rounded.end()));
  const double sum = std::reduce(weights.begin(), weights.end());
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(static_cast<double>(rounded[i]) / cycle, weights[i] / sum, 1e-6);
}

TEST(MixtureShares, OfLessThanAMillionthAreRefused) {
  test::expect_error<ConfigError>([] { shares({1, 1e-7}); }, {"data.sources: the weight 1e-07", "millionth"});
  test::expect_error<ConfigError>([] { shares({1e308, 1e308, 1}); }, {"data.sources: the weight 1 "});
}

TEST(MixtureOfSources, HoldsEachShareWithinOneSampleInEveryPrefix) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> shares(std::uniform_int_distribution<std::size_t>(1, 12)(random));
    const int largest = trial % 3 == 0 ? 3 : trial % 3 == 1 ? 40 : 900;
    for (std::int64_t& share : shares) share = std::uniform_int_distribution(1, largest)(random);
    const Mixture mixture(shares);
    const std::int64_t cycle = std::reduce(shares.begin(), shares.end());
    ASSERT_EQ(mixture.cycle(), cycle);
    std::vector<std::int64_t> counts(shares.size(), 0);
    for (std::int64_t sample = 0; sample < 2 * cycle + 1; ++sample) {
      const Mixture::Place place = mixture.place(sample);
      ASSERT_EQ(place.index, counts[place.source]++);
      for (std::size_t i = 0; i < shares.size(); ++i)
        ASSERT_LT(std::abs(counts[i] * cycle - (sample + 1) * shares[i]), cycle) << "source " << i;
    }
    for (std::size_t i = 0; i < shares.size(); ++i) ASSERT_EQ(mixture.count(i, 2 * cycle + 1), counts[i]);
  }
}

TEST(MixtureOfSources, IsFoundAnywhereInARun) {
  const Mixture mixture({7, 3});
  const std::int64_t far = std::int64_t{1} << 50;
  const Mixture::Place place = mixture.place(far);
  EXPECT_EQ(mixture.count(place.source, far), place.index);
  EXPECT_EQ(mixture.count(place.source, far + 1), place.index + 1);
  EXPECT_EQ(mixture.count(0, far) + mixture.count(1, far), far);
}

/// Two sources: tokens below 1000 and tokens from 1000 on, as many as each has sequences.
class SeveralSources : public ::testing::Test {
 protected:
  SeveralSources() {
    config_.data.sources = {{{write_range("large.bin", 0, 1000)}, 3},
                            {{write_range("small.bin", 1000, 301)}, 1}};
    config_.data.validation_fraction = 0.1;
    config_.data.tokenizer = Tokenizer::none;
    config_.data.sequence_length = 10;
    config_.train.batch = 8;
    config_.train.microbatch = 2;
  }

  std::string write_range(const std::string& name, int first, int count) const {
    std::vector<std::uint16_t> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(first));
    return corpus_.write(name, packed(tokens));
  }
  BatchLoader loader() const { return {config_, 2000}; }

  /// First tokens of the samples of a step.
  static std::vector<std::int32_t> firsts(const BatchLoader& loader, std::int64_t step) {
    std::vector<std::int32_t> tokens(20), targets(20), firsts;
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      loader.fill(step, microbatch, tokens, targets);
      firsts.insert(firsts.end(), {tokens[0], tokens[10]});
      EXPECT_EQ(targets[9], tokens[9] + 1);
    }
    return firsts;
  }
  static nlohmann::json sampler(const BatchLoader& loader, std::int64_t step) {
    return training_data(loader).sampler(step);
  }

  Corpus corpus_;
  RunConfig config_;
};

// Invariant (SeveralSources.*): Every stretch of a run has its mixture.
TEST_F(SeveralSources, ShareOutEveryBatchByTheirWeights) {
  const BatchLoader loader = this->loader();
  EXPECT_EQ(loader.training_sequences(), 89 + 26);
  EXPECT_EQ(loader.validation_sequences(), 10 + 3);
  for (std::int64_t step = 0; step < 30; ++step)
    EXPECT_EQ(std::ranges::count_if(firsts(loader, step), [](int token) { return token < 1000; }), 6);
}

TEST_F(SeveralSources, GoThroughTheirOwnEpochs) {
  const BatchLoader loader = this->loader();
  std::vector<std::int32_t> small;
  for (std::int64_t step = 0; step < 26; ++step) {
    for (const std::int32_t token : firsts(loader, step))
      if (token >= 1000) small.push_back(token);
  }
  ASSERT_EQ(small.size(), 52U);
  const auto middle = small.begin() + 26;
  EXPECT_FALSE(std::equal(small.begin(), middle, middle)) << "each epoch has an order of its own";
  std::sort(small.begin(), middle);
  std::sort(middle, small.end());
  EXPECT_TRUE(std::equal(small.begin(), middle, middle));
  EXPECT_EQ(std::unique(small.begin(), middle), middle);
}

TEST_F(SeveralSources, AreHeldOutEachForItselfAndMeasuredByTheirWeights) {
  config_.train.validation_batches = 100;
  const BatchLoader loader = this->loader();
  ASSERT_EQ(loader.validation_microbatches(), 7);
  std::vector<std::int32_t> tokens(20), targets(20);
  int small = 0;
  for (int i = 0; i < 4; ++i) {
    loader.fill_validation(i, tokens, targets);
    for (const int at : {0, 10}) {
      const std::int32_t token = tokens[static_cast<std::size_t>(at)];
      small += token >= 1000 ? 1 : 0;
      EXPECT_GE(token, token >= 1000 ? 1270 : 899) << "from the end of a source";
    }
  }
  EXPECT_EQ(small, 2);
  config_.data.validation = {write_range("held-out.bin", 1500, 101)};
  EXPECT_EQ(this->loader().validation_sequences(), 10);
  EXPECT_EQ(this->loader().training_sequences(), 99 + 30);
}

TEST_F(SeveralSources, AreToldApartByTheStateOfSampling) {
  const nlohmann::json state = sampler(loader(), 9);
  EXPECT_EQ(state, nlohmann::json::parse(R"({"seed": 1, "sources": [
      {"share": 3, "sequences": 89, "epoch": 0, "position": 54},
      {"share": 1, "sequences": 26, "epoch": 0, "position": 18}]})"));
  config_.data.sources[1].weight = 2;
  EXPECT_NE(sampler(loader(), 9), state);
  config_.data.sources[0].weight = 6;
  EXPECT_EQ(sampler(loader(), 9), state) << "the same mixture in other words";
  config_.data.sources.pop_back();
  EXPECT_NE(sampler(loader(), 9), state);
}

TEST_F(SeveralSources, OfOneAreTheDataOfItsPath) {
  RunConfig alone = config_;
  alone.data.path = config_.data.sources[0].path;
  alone.data.sources.clear();
  config_.data.sources.pop_back();
  const BatchLoader by_path(alone, 2000), by_source = loader();
  EXPECT_EQ(sampler(by_path, 5), sampler(by_source, 5));
  for (std::int64_t step = 0; step < 20; ++step) EXPECT_EQ(firsts(by_path, step), firsts(by_source, step));
}

TEST_F(SeveralSources, CountTheTargetsThatAreTrainedOn) {
  // All of the large one, and every second id of the small one.
  const std::string marked =
      corpus_.write_megatron<std::uint16_t>("marked", 8, {std::vector<std::uint16_t>(301, 9)});
  std::string marks(301, '\1');
  for (std::size_t i = 0; i < marks.size(); i += 2) marks[i] = '\0';
  corpus_.write("marked.trained", marks);
  config_.data.sources[1].path = {marked};
  const BatchLoader loader = this->loader();
  EXPECT_FALSE(loader.are_all_trained());
  EXPECT_EQ(loader.trained_targets(0), 6 * 10 + 2 * 5);
  std::vector<std::int32_t> tokens(20), targets(20);
  std::int64_t trained = 0;
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    loader.fill(0, microbatch, tokens, targets);
    trained += 20 - std::ranges::count(targets, kUntrained);
  }
  EXPECT_EQ(trained, loader.trained_targets(0));
}

TEST_F(SeveralSources, AreRefusedByTheirNumber) {
  const auto refusal = [this](std::vector<DataSource> sources) {
    config_.data.sources = std::move(sources);
    try {
      loader();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<DataSource> good = config_.data.sources;
  EXPECT_THAT(refusal({good[0], {{"/nowhere/*.bin"}, 1}}),
              HasSubstr("data.sources: source 2: no file matches"));
  EXPECT_THAT(refusal({good[0], {{write_range("short.bin", 0, 5)}, 1}}),
              HasSubstr("data.sources: source 2: 5 tokens are fewer than"));
  EXPECT_THAT(refusal({good[0], good[1], good[0]}),
              HasSubstr("large.bin belongs to data.sources: source 1 already: name each file in one source"));
}

TEST_F(SeveralSources, SayWhichIsSmallerThanABatchsPart) {
  config_.data.sources[1].path = {write_range("tiny.bin", 0, 31)};
  config_.train.batch = 24;
  EXPECT_THAT(loader().warnings(),
              ElementsAre(HasSubstr("6 sequences per step of source 2 of data.sources are "
                                    "more than the 1 there are")));
}

}  // namespace
}  // namespace strata
