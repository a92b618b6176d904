#include "engine/input/data/batch_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/context_part.h"
#include "engine/config/run_config.h"
#include "tests/data/corpus.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kVocabulary = 65536;

struct Microbatch {
  std::vector<std::int32_t> tokens, targets;
  friend bool operator==(const Microbatch&, const Microbatch&) = default;
};

/// A corpus whose token t is t, so that a sample shows where it comes from.
class BatchLoaderTest : public ::testing::Test {
 protected:
  BatchLoaderTest() {
    config_.data.path = {write_range("train.bin", 0, 1000)};
    config_.data.validation_fraction = 0.1;
    config_.data.tokenizer = Tokenizer::none;
    config_.data.sequence_length = 10;
    config_.train.batch = 6;
    config_.train.microbatch = 2;
  }

  std::string write_range(const std::string& name, int first, int count) const {
    std::vector<std::uint16_t> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(first));
    return corpus_.write(name, packed(tokens));
  }

  BatchLoader loader() const { return {config_, kVocabulary}; }

  std::size_t elements() const {
    return static_cast<std::size_t>(config_.train.microbatch * config_.data.sequence_length);
  }
  Microbatch training(const BatchLoader& loader, std::int64_t step, std::int64_t microbatch) const {
    Microbatch result{std::vector<std::int32_t>(elements()), std::vector<std::int32_t>(elements())};
    loader.fill(step, microbatch, result.tokens, result.targets);
    return result;
  }
  Microbatch validation(const BatchLoader& loader, std::int64_t microbatch) const {
    Microbatch result{std::vector<std::int32_t>(elements()), std::vector<std::int32_t>(elements())};
    loader.fill_validation(microbatch, result.tokens, result.targets);
    return result;
  }

  Corpus corpus_;
  RunConfig config_;
};

TEST_F(BatchLoaderTest, FillsSequencesWithTargetsShiftedByOne) {
  const BatchLoader loader = this->loader();
  for (std::int64_t step = 0; step < 20; ++step) {
    const Microbatch batch = training(loader, step, step % 3);
    for (std::size_t i = 0; i < elements(); ++i) {
      EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
      const std::int32_t sequence_begin = batch.tokens[i - i % 10];
      EXPECT_EQ(sequence_begin % 10, 0);
      EXPECT_EQ(batch.tokens[i], sequence_begin + static_cast<std::int32_t>(i % 10));
    }
  }
}

TEST_F(BatchLoaderTest, TakesTheDataInItsOrderWhereItIsNotShuffled) {
  config_.data.shuffle = false;
  const BatchLoader loader = this->loader();
  for (std::int64_t step = 0; step < 14; ++step) {
    for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
      const Microbatch batch = training(loader, step, microbatch);
      const std::int64_t sample = step * 6 + microbatch * 2;
      EXPECT_EQ(batch.tokens[0], 10 * sample);
      EXPECT_EQ(batch.tokens[10], 10 * (sample + 1));
    }
  }
  EXPECT_EQ(training(loader, 14, 2).tokens[10], 0) << "the 90th sample of 89 sequences begins anew";
}

TEST_F(BatchLoaderTest, TrainsOnEverySequenceOncePerEpoch) {
  const BatchLoader loader = this->loader();
  const std::int64_t sequences = loader.training_sequences();
  ASSERT_EQ(sequences, 89);  // 99 in all; 10 of them are held out
  std::map<std::int32_t, int> visits;
  for (std::int64_t sample = 0; sample < 2 * 89; sample += 2) {
    const Microbatch batch = training(loader, sample / 6, sample % 6 / 2);
    ++visits[batch.tokens[0]];
    ++visits[batch.tokens[10]];
  }
  EXPECT_EQ(visits.size(), 89U);
  for (const auto& [first_token, count] : visits) EXPECT_EQ(count, 2) << first_token;
}

TEST_F(BatchLoaderTest, IsAPureFunctionOfStepAndMicrobatch) {
  const BatchLoader loader = this->loader();
  const Microbatch later = training(loader, 7, 1);
  EXPECT_NE(training(loader, 0, 0), later);
  EXPECT_EQ(training(loader, 7, 1), later);
  EXPECT_EQ(training(this->loader(), 7, 1), later);
  config_.train.seed = 2;
  EXPECT_NE(training(this->loader(), 7, 1), later);
}

TEST_F(BatchLoaderTest, DrawsTheSameBatchWhateverTheMicrobatches) {
  const BatchLoader small = this->loader();
  Microbatch joined;
  for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
    const Microbatch part = training(small, 4, microbatch);
    joined.tokens.insert(joined.tokens.end(), part.tokens.begin(), part.tokens.end());
    joined.targets.insert(joined.targets.end(), part.targets.begin(), part.targets.end());
  }
  config_.train.microbatch = 6;
  EXPECT_EQ(training(this->loader(), 4, 0), joined);
}

TEST_F(BatchLoaderTest, HasTheStateOfItsStep) {
  EXPECT_THAT(loader().state(0),
              ElementsAre(SourceState{1, {.seed = 1, .sequences = 89, .epoch = 0, .position = 0}}));
  EXPECT_THAT(loader().state(15),
              ElementsAre(SourceState{1, {.seed = 1, .sequences = 89, .epoch = 1, .position = 1}}));
}

TEST_F(BatchLoaderTest, HoldsOutTheEndOfTheDataAndNeverTrainsOnIt) {
  const BatchLoader loader = this->loader();
  std::int32_t largest_trained = 0;
  for (std::int64_t step = 0; step < 30; ++step) {
    for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
      const Microbatch batch = training(loader, step, microbatch);
      largest_trained = std::max(largest_trained, *std::ranges::max_element(batch.targets));
    }
  }
  ASSERT_EQ(loader.validation_sequences(), 10);
  ASSERT_EQ(loader.validation_microbatches(), 5);
  std::set<std::int32_t> starts;
  for (std::int64_t microbatch = 0; microbatch < 5; ++microbatch) {
    const Microbatch batch = validation(loader, microbatch);
    EXPECT_GT(*std::ranges::min_element(batch.tokens), largest_trained);
    for (std::size_t i = 0; i < elements(); ++i) EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    starts.insert({batch.tokens[0], batch.tokens[10]});
  }
  EXPECT_EQ(starts.size(), 10U);
}

TEST_F(BatchLoaderTest, ValidatesOnTheSameDataWhateverTheSeed) {
  const Microbatch batch = validation(loader(), 1);
  config_.train.seed = 99;
  EXPECT_EQ(validation(loader(), 1), batch);
}

TEST_F(BatchLoaderTest, ValidatesOnAsMuchAsIsHeldOut) {
  config_.train.validation_batches = 3;
  EXPECT_EQ(loader().validation_microbatches(), 3);
  config_.train.validation_batches = 100;
  config_.train.microbatch = 3;
  const BatchLoader loader = this->loader();
  ASSERT_EQ(loader.validation_microbatches(), 4);  // 10 sequences in microbatches of 3: the last begins anew
  EXPECT_EQ(validation(loader, 3).tokens[10], validation(loader, 0).tokens[0]);
  config_.data.validation_fraction = 0;
  EXPECT_EQ(this->loader().validation_microbatches(), 0);
  EXPECT_EQ(this->loader().training_sequences(), 99);
}

TEST_F(BatchLoaderTest, ValidatesOnFilesOfTheirOwn) {
  config_.data.validation = {write_range("held-out.bin", 5000, 35)};
  const BatchLoader loader = this->loader();
  EXPECT_EQ(loader.training_sequences(), 99);
  EXPECT_EQ(loader.validation_sequences(), 3);
  const Microbatch batch = validation(loader, 0);
  EXPECT_GE(*std::ranges::min_element(batch.tokens), 5000);
}

TEST_F(BatchLoaderTest, LeavesHeldOutFilesOutOfTheTrainingFiles) {
  write_range("z.bin", 5000, 35);
  std::filesystem::create_symlink(corpus_.path("z.bin"), corpus_.path("link.bin"));
  config_.data.path = {corpus_.path("*.bin")};
  config_.data.validation = {corpus_.path("link.bin")};
  EXPECT_EQ(loader().training_sequences(), 99);
  config_.data.path = {corpus_.path("z.bin")};
  EXPECT_EQ(refusal([&] { loader(); }), "data.path: data.validation holds out every file that it names");
}

TEST_F(BatchLoaderTest, RefusesTooFewTokens) {
  config_.data.path = {write_range("few.bin", 0, 21)};
  EXPECT_THAT(refusal([&] { loader(); }),
              HasSubstr("data.path: 21 tokens are fewer than the 22 of one sequence to train "
                        "on and one to hold out"));
  config_.data.validation_fraction = 0;
  EXPECT_EQ(loader().training_sequences(), 2);
  config_.data.path = {write_range("few.bin", 0, 10)};
  EXPECT_THAT(refusal([&] { loader(); }),
              HasSubstr("data.path: 10 tokens are fewer than the 11 of one sequence"));
  config_.data.validation = config_.data.path;
  config_.data.path = {corpus_.path("train.bin")};
  EXPECT_THAT(refusal([&] { loader(); }), HasSubstr("data.validation: 10 tokens are fewer"));
}

TEST_F(BatchLoaderTest, RefusesAnEmptyCorpus) {
  config_.data.path = {corpus_.write("empty.bin", "")};
  EXPECT_EQ(refusal([&] { loader(); }), "data.path: the files are empty");
  config_.data.tokenizer = Tokenizer::bytes;
  config_.data.path = {corpus_.write("a.txt", ""), corpus_.write("b.txt", "")};
  EXPECT_EQ(refusal([&] { loader(); }), "data.path: the files are empty");
}

TEST_F(BatchLoaderTest, ReadsText) {
  config_.data.tokenizer = Tokenizer::bytes;
  config_.data.path = {corpus_.write("a.txt", "0123456789abcdefghij"), corpus_.write("b.txt", "klmnopqrs")};
  config_.data.validation_fraction = 0;
  config_.train.batch = config_.train.microbatch = 1;
  const BatchLoader loader = this->loader();
  ASSERT_EQ(loader.training_sequences(), 3);
  std::map<char, std::string> texts;
  for (std::int64_t step = 0; step < 3; ++step) {
    const Microbatch batch = training(loader, step, 0);
    texts[static_cast<char>(batch.tokens[0])] = {batch.targets.begin(), batch.targets.end()};
  }
  EXPECT_EQ(texts['0'], "123456789a");
  EXPECT_EQ(texts['a'], std::string("bcdefghij\0", 10));
  EXPECT_EQ(texts['\0'], std::string("klmnopqrs\0", 10));
}

TEST(SplitTokens, KeepsBothSidesApartAndInside) {
  for (std::int64_t tokens = 0; tokens < 200; ++tokens) {
    for (const std::int64_t length : {1, 3, 8}) {
      for (const double fraction : {0.0, 0.01, 0.3, 0.99}) {
        const Split split = split_tokens(tokens, length, fraction);
        const auto end = [&](const SequenceRange& range) {
          return range.count == 0 ? range.begin : range.begin + range.count * length + 1;
        };
        EXPECT_GE(split.training.count, 0);
        EXPECT_GE(split.validation.begin, 0);
        EXPECT_LE(end(split.validation), tokens);
        EXPECT_LE(end(split.training), split.validation.count > 0 ? split.validation.begin : tokens);
        EXPECT_EQ(split.validation.count > 0, fraction > 0 && tokens > length);
        // Nothing that fits is left over: at most one sequence's worth on the seam, and the one a held-out
        // one takes.
        EXPECT_GE((split.training.count + split.validation.count + 2) * length, tokens - 2);
      }
    }
  }
}

/// Every third token is not trained on; token t is t.
class PartlyTrained : public BatchLoaderTest {
 protected:
  PartlyTrained() {
    std::vector<std::uint16_t> tokens(1000);
    std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
    config_.data.path = {corpus_.write_megatron<std::uint16_t>("marked", 8, {tokens})};
    std::string marks;
    for (const std::uint16_t token : tokens) marks += is_trained(token) ? '\1' : '\0';
    corpus_.write("marked.trained", marks);
  }
  static bool is_trained(std::int64_t token) { return token % 3 != 0; }
};

// Invariant (PartlyTrained.*): Untrained tokens have no loss.
TEST_F(PartlyTrained, HasTheTargetsThatAreAndCountsThem) {
  const BatchLoader loader = this->loader();
  const auto expect_targets = [&](const Microbatch& data, std::int64_t& trained) {
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
      const std::int32_t next = data.tokens[i] + 1;
      EXPECT_EQ(data.targets[i], is_trained(next) ? next : kUntrained);
      trained += is_trained(next) ? 1 : 0;
    }
  };
  EXPECT_FALSE(loader.are_all_trained());
  for (std::int64_t step = 0; step < 40; ++step) {
    std::int64_t trained = 0;
    for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch)
      expect_targets(training(loader, step, microbatch), trained);
    EXPECT_EQ(loader.trained_targets(step), trained) << step;
  }
  std::int64_t held_out = 0;
  for (std::int64_t microbatch = 0; microbatch < loader.validation_microbatches(); ++microbatch)
    expect_targets(validation(loader, microbatch), held_out);
  EXPECT_GT(held_out, 0);
  EXPECT_EQ(loader.trained_validation_targets(HeldOutOnce::no), held_out);
}

TEST_F(PartlyTrained, RefusesDataWithoutAnyTarget) {
  corpus_.write("marked.trained", std::string(1000, '\0'));
  EXPECT_THAT(refusal([&] { loader(); }), HasSubstr("data.path: nothing is trained on in "));
  corpus_.write("marked.trained", std::string(700, '\1') + std::string(300, '\0'));
  config_.data.validation_fraction = 0.1;
  EXPECT_THAT(refusal([&] { loader(); }),
              HasSubstr("data.path, data.validation_fraction: nothing is trained on in "));
  config_.data.validation_fraction = 0;
  loader();
  config_.data.validation = config_.data.path;
  config_.data.path = {corpus_.write("own.bin", packed<std::uint16_t>(std::vector<std::uint16_t>(100)))};
  corpus_.write("marked.trained", std::string(1000, '\0'));
  EXPECT_THAT(refusal([&] { loader(); }), HasSubstr("data.validation: nothing is trained on in "));
}

/// Documents of these lengths. The first does not begin where a sequence begins. Token t is t.
class WithinDocuments : public BatchLoaderTest {
 protected:
  WithinDocuments() {
    config_.data.path = {write_documents("documents", {7, 1, 0, 2, 25, 10, 3, 1, 1, 40, 200, 15})};
    config_.data.packing = DataPacking::documents;
    config_.data.shuffle = false;
    config_.data.validation_fraction = 0.2;
  }

  std::string write_documents(const std::string& name, const std::vector<std::size_t>& lengths) {
    std::vector<std::vector<std::uint16_t>> documents;
    for (const std::size_t length : lengths) {
      begins_.insert(std::ssize(tokens_));
      documents.emplace_back();
      for (std::size_t i = 0; i < length; ++i) {
        tokens_.push_back(static_cast<std::uint16_t>(tokens_.size()));
        documents.back().push_back(tokens_.back());
      }
    }
    return corpus_.write_megatron<std::uint16_t>(name, 8, documents);
  }

  /// What the tokens of a microbatch say that its targets and places are. Returns how many are trained on.
  std::int64_t expect_places(const Microbatch& data, const std::vector<std::int32_t>& places) const {
    std::int64_t trained = 0;
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
      const std::int64_t token = data.tokens[i];
      const std::int64_t begin =
          std::max<std::int64_t>(*std::prev(begins_.upper_bound(token)), data.tokens[i - i % 10]);
      EXPECT_EQ(places[i], token - begin) << token;
      const bool is_last = begins_.contains(token + 1);
      EXPECT_EQ(data.targets[i], is_last ? kUntrained : token + 1) << token;
      trained += is_last ? 0 : 1;
    }
    return trained;
  }

  std::vector<std::uint16_t> tokens_;
  std::set<std::int64_t> begins_;
};

// Invariant (WithinDocuments.*): Documents in one sequence are independent.
TEST_F(WithinDocuments, PlacesBeginAnewAndNothingIsPredictedAcrossABorder) {
  const BatchLoader loader = this->loader();
  EXPECT_TRUE(loader.is_by_documents());
  EXPECT_FALSE(loader.are_all_trained());
  for (std::int64_t step = 0; step < 5; ++step) {
    std::int64_t trained = 0;
    for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
      Microbatch data{std::vector<std::int32_t>(elements()), std::vector<std::int32_t>(elements())};
      std::vector<std::int32_t> places(elements()), alone(elements());
      loader.fill(step, microbatch, data.tokens, data.targets, {}, places);
      trained += expect_places(data, places);
      loader.fill(step, microbatch, {}, {}, {}, alone);
      EXPECT_EQ(alone, places);
    }
    EXPECT_EQ(loader.trained_targets(step), trained);
  }
  std::int64_t held_out = 0;
  for (std::int64_t microbatch = 0; microbatch < loader.validation_microbatches(); ++microbatch) {
    Microbatch data{std::vector<std::int32_t>(elements()), std::vector<std::int32_t>(elements())};
    std::vector<std::int32_t> places(elements());
    loader.fill_validation(microbatch, data.tokens, data.targets, {}, places);
    held_out += expect_places(data, places);
  }
  EXPECT_EQ(loader.trained_validation_targets(HeldOutOnce::no), held_out);
}

TEST_F(WithinDocuments, RanksThatShareSequencesHaveTheirPartsOfThem) {
  config_.data.sequence_length = 8;
  const BatchLoader loader = this->loader();
  std::vector<std::int32_t> whole(elements());
  loader.fill(1, 0, {}, {}, {}, whole);
  for (const std::int64_t rank : {0, 1}) {
    const ContextPart part{2, rank};
    std::vector<std::int32_t> own(8);
    loader.fill(1, 0, {}, {}, part, own);
    for (std::size_t i = 0; i < own.size(); ++i)
      EXPECT_EQ(own[i], whole[i / 4 * 8 + static_cast<std::size_t>(
                                              part.positions(4).at(static_cast<std::int64_t>(i % 4)))]);
  }
}

TEST_F(WithinDocuments, ATextIsADocument) {
  config_.data.tokenizer = Tokenizer::bytes;
  config_.data.path = {corpus_.write("a.txt", "abcd"), corpus_.write("b.txt", "efghijklmnopq")};
  config_.data.validation_fraction = 0;
  config_.train.batch = config_.train.microbatch = 1;
  const BatchLoader loader = this->loader();
  Microbatch data{std::vector<std::int32_t>(10), std::vector<std::int32_t>(10)};
  std::vector<std::int32_t> places(10);
  loader.fill(0, 0, data.tokens, data.targets, {}, places);
  EXPECT_EQ(places, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(data.targets[3], 0);
  EXPECT_EQ(data.targets[4], kUntrained);
}

TEST_F(WithinDocuments, RefusesFilesThatDoNotSayWhereTheyBegin) {
  config_.data.path = {write_range("plain.bin", 0, 100)};
  EXPECT_THAT(refusal([&] { loader(); }),
              AllOf(HasSubstr("plain.bin does not say where its documents begin"), HasSubstr(".idx")));
  const std::string prefix = corpus_.write_megatron<std::uint16_t>("wrong", 8, {{1, 2, 3}, {4}});
  std::string index;
  {
    std::ifstream file(prefix + ".idx", std::ios::binary);
    index.assign(std::istreambuf_iterator<char>(file), {});
  }
  index[index.size() - 16] = 7;  // the second document begins with sequence 7
  corpus_.write("wrong.idx", index);
  config_.data.path = {prefix + ".bin"};
  EXPECT_THAT(
      refusal([&] { loader(); }),
      AllOf(HasSubstr("wrong.idx: entry 1 of its documents is sequence 7"), HasSubstr("data.packing")));
}

/// Documents of these lengths in sequences of ten tokens. No token is 0.
class WholeDocuments : public BatchLoaderTest {
 protected:
  WholeDocuments() {
    config_.data.path = {write({7, 1, 0, 2, 25, 10, 3, 1, 1, 4, 40, 9, 6, 5, 8, 2, 2})};
    config_.data.packing = DataPacking::whole;
    config_.data.shuffle = false;
    config_.data.validation_fraction = 0;
    config_.train.batch = config_.train.microbatch = 1;
  }

  std::string write(const std::vector<std::size_t>& lengths) {
    std::vector<std::vector<std::uint16_t>> documents;
    for (const std::size_t length : lengths) {
      begins_.insert(next_);
      documents.emplace_back(length);
      for (std::uint16_t& token : documents.back()) token = static_cast<std::uint16_t>(next_++);
    }
    begins_.insert(next_);
    return corpus_.write_megatron<std::uint16_t>("whole", 8, documents);
  }

  struct Filled {
    std::vector<std::int32_t> tokens, targets, places;
  };
  Filled filled(const BatchLoader& loader, std::int64_t sequence) const {
    Filled data{std::vector<std::int32_t>(elements()), std::vector<std::int32_t>(elements()),
                std::vector<std::int32_t>(elements())};
    loader.fill(sequence, 0, data.tokens, data.targets, {}, data.places);
    return data;
  }

  std::int32_t next_ = 1;
  std::set<std::int32_t> begins_;
};

// Invariant (WholeDocuments.*): Documents in one sequence are independent.
TEST_F(WholeDocuments, StandUncutInSequencesThatTheyFill) {
  const BatchLoader loader = this->loader();
  EXPECT_EQ(loader.training_sequences(), 13);  // of 126 tokens
  std::set<std::int32_t> seen;
  for (std::int64_t sequence = 0; sequence < loader.training_sequences(); ++sequence) {
    const Filled data = filled(loader, sequence);
    std::int64_t trained = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      const std::int32_t token = data.tokens[i];
      if (token == 0) {
        EXPECT_EQ(data.targets[i], kUntrained);
        EXPECT_EQ(data.places[i], i > 0 && data.tokens[i - 1] == 0 ? data.places[i - 1] + 1 : 0);
        continue;
      }
      EXPECT_TRUE(seen.insert(token).second) << token;
      const std::int32_t begin = *std::prev(begins_.upper_bound(token));
      EXPECT_EQ(data.places[i], (token - begin) % 10) << "only what is longer than a sequence is cut";
      EXPECT_TRUE(data.places[i] == 0 || token == data.tokens[i - 1] + 1) << token;
      EXPECT_EQ(data.targets[i], begins_.contains(token + 1) ? kUntrained : token + 1);
      trained += data.targets[i] != kUntrained ? 1 : 0;
    }
    EXPECT_EQ(loader.trained_targets(sequence), trained);
  }
  EXPECT_EQ(std::ssize(seen), 126);
}

TEST_F(WholeDocuments, GoWhereTheyLeaveTheLeastRoom) {
  config_.data.path = {write({2, 6, 3, 5, 4})};
  const BatchLoader loader = this->loader();
  ASSERT_EQ(loader.training_sequences(), 2);
  EXPECT_EQ(filled(loader, 0).places, (std::vector<std::int32_t>{0, 1, 0, 1, 2, 0, 1, 2, 3, 4}));
  EXPECT_EQ(filled(loader, 1).places, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3}));
}

TEST_F(WholeDocuments, AreHeldOutWhole) {
  config_.data.validation_fraction = 0.1;  // 13 of 126 tokens; the last three documents have 12, so four are
  const BatchLoader loader = this->loader();
  const std::int32_t border = *std::prev(begins_.end(), 5);
  for (std::int64_t sequence = 0; sequence < loader.training_sequences(); ++sequence)
    for (const std::int32_t token : filled(loader, sequence).tokens) EXPECT_LT(token, border);
  std::vector<std::int32_t> tokens(elements()), targets(elements());
  std::int64_t trained = 0;
  ASSERT_EQ(loader.validation_microbatches(), 2);
  for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch) {
    loader.fill_validation(microbatch, tokens, targets);
    for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_TRUE(tokens[i] == 0 || tokens[i] >= border);
    trained += std::ranges::count_if(targets, [](std::int32_t target) { return target != kUntrained; });
  }
  EXPECT_EQ(loader.trained_validation_targets(HeldOutOnce::no), trained);
  config_.data.validation_fraction = 0.9;
  config_.data.path = {write({100, 1})};
  EXPECT_THAT(refusal([&] { this->loader(); }), HasSubstr("leaves none to train on"));
}

TEST_F(WholeDocuments, AreSharedOutAmongRanks) {
  config_.data.sequence_length = 8;
  const BatchLoader loader = this->loader();
  for (std::int64_t sequence = 0; sequence < loader.training_sequences(); ++sequence) {
    const Filled whole = filled(loader, sequence);
    for (const std::int64_t rank : {0, 1}) {
      const ContextPart part{2, rank};
      Filled own{std::vector<std::int32_t>(4), std::vector<std::int32_t>(4), std::vector<std::int32_t>(4)};
      loader.fill(sequence, 0, own.tokens, own.targets, part, own.places);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto at = static_cast<std::size_t>(part.positions(4).at(static_cast<std::int64_t>(i)));
        EXPECT_EQ(own.tokens[i], whole.tokens[at]);
        EXPECT_EQ(own.targets[i], whole.targets[at]);
        EXPECT_EQ(own.places[i], whole.places[at]);
      }
    }
  }
}

}  // namespace
}  // namespace strata
