// Several documents in a sequence are as each in one of its own: losses token by token, gradients tensor by
// tensor, on any ranks, and no placement changes a bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/documents_data.h"
#include "tests/execute/gradients.h"

namespace strata {
namespace {

using test::documents_apart;
using test::expect_equal_runs;
using test::packed_documents;
using test::run;
using test::RunOutcome;

class DocumentsTest : public ::testing::Test {
 protected:
  RunConfig config(const std::string& architecture = "llama") const {
    return test::run_of_documents(corpus_, architecture);
  }
  /// Several steps of many documents of many lengths, which the borders of sequences cut.
  RunConfig many(const std::string& architecture = "llama") const {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 60; ++i) lengths.push_back(1 + i * i % 37);
    RunConfig config = this->config(architecture);
    config.data.path = {corpus_.write_megatron<std::uint16_t>("many", 8, test::random_documents(lengths))};
    config.data.packing = DataPacking::documents;
    config.data.validation_fraction = 0.2;
    config.data.shuffle = true;
    config.train.batch = 8;
    config.train.microbatch = 1;
    config.train.validate_every = 2;
    config.train.validation_batches = 4;
    return config;
  }

  Corpus corpus_;
};

class PackedModel : public DocumentsTest, public ::testing::WithParamInterface<const char*> {};

// Invariant of data (PackedModel.*): Documents in one sequence are independent. Each token's loss and each
// tensor's gradient are those of the document in a sequence of its own, within 1e-5 in fp32. Ranks of every
// kind follow one rank, and placements change no bit.
TEST_P(PackedModel, TrainsAsWithEachDocumentInASequenceOfItsOwn) {
  const RunConfig config = this->config(GetParam());
  test::expect_packed_is_apart(config, corpus_);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedModel, ::testing::Values("llama", "qwen3", "mistral", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

// Invariant (DocumentsTest.*): Documents in one sequence are independent.
TEST_F(DocumentsTest, RotateByTheirOwnLengths) {
  for (const char* architecture : {"phi3", "llama"}) {
    SCOPED_TRACE(architecture);
    test::expect_losses_of_documents_alone(config(architecture), corpus_);
  }
}

TEST_F(DocumentsTest, AreRefusedWhereEachLengthHasARotationOfItsOwn) {
  RunConfig config = many("llama");
  config.model.config["max_position_embeddings"] = 16;
  config.model.config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  try {
    run(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("data.packing: the model's rope type is dynamic"));
  }
}

TEST_F(DocumentsTest, AreNotOneText) {
  const RunConfig packed = packed_documents(config(), corpus_);
  RunConfig together = packed;
  together.data.packing = DataPacking::none;
  EXPECT_GT(std::abs(run(together).result.steps.at(0).loss - run(packed).result.steps.at(0).loss), 1e-4);
}

TEST_F(DocumentsTest, HaveTheirBitsInLittleMemoryAndInAnyOrder) {
  RunConfig config = many();
  const RunOutcome resident = run(config);
  test::expect_the_plan_was_exact(resident);
  const std::string expected = resident.result.state_hash;
  config.memory.device = test::smallest_bytes(config);
  for (const Recompute recompute : {Recompute::automatic, Recompute::full}) {
    config.train.recompute = recompute;
    const RunOutcome outcome = run(config);
    EXPECT_EQ(outcome.result.state_hash, expected);
    test::expect_the_plan_was_exact(outcome);
  }
  config.plan.order = Order::microbatch_major;
  EXPECT_EQ(run(config).result.state_hash, expected);
}

class PackedRanks : public DocumentsTest, public ::testing::WithParamInterface<const char*> {};

// Invariant (PackedRanks.*): Documents in one sequence are independent.
TEST_P(PackedRanks, FollowTheRunOfOneRank) {
  const RunConfig alone = many(GetParam());
  RunConfig config = alone;
  config.parallel.zero_stage = 3;
  expect_equal_runs(alone, config, 2);
  config = alone;
  config.parallel.tensor = 2;
  config.parallel.sequence = true;
  expect_equal_runs(alone, config, 2);
  config = alone;
  config.parallel.context = config.parallel.pipeline = 2;
  expect_equal_runs(alone, config, 4);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedRanks, ::testing::Values("llama", "qwen3", "phi3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(DocumentsTest, AreAskedForAgainByARunThatGoesOn) {
  RunConfig config = many();
  config.train.validate_every = 0;
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.path = corpus_.path("out");
  config.train.steps = 2;
  run(config);
  config.train.steps = 4;
  test::Warnings warnings;
  RunConfig other = config;
  EXPECT_EQ(run(config, {.listener = &warnings}).result.state_hash, expected);
  EXPECT_THAT(warnings.all(), ::testing::IsEmpty());
  other.train.steps = 5;
  other.data.packing = DataPacking::none;
  run(other, {.listener = &warnings});
  EXPECT_THAT(warnings.all(), ::testing::Contains(::testing::HasSubstr("data")));
}

}  // namespace
}  // namespace strata
