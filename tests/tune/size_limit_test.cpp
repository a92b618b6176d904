// Whatever numbers a user gives: a plan or one sentence, soon, and never a crash. Every integer key of the
// run file and every size of a model, alone and in pairs, at values at which products wrap around or memory
// would be taken in proportion.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/checked.h"
#include "engine/config/keys.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::array kExtremes = {std::int64_t{0},
                                  std::int64_t{1},
                                  std::int64_t{64},
                                  std::int64_t{1} << 22,
                                  (std::int64_t{1} << 31) - 1,
                                  std::int64_t{1} << 32,
                                  std::int64_t{1} << 40,
                                  std::int64_t{1} << 53,
                                  std::int64_t{1} << 62,
                                  kMost,
                                  -std::int64_t{1},
                                  -kMost - 1};

std::vector<std::string> integer_keys() {
  std::vector<std::string> keys = {"model.config.num_hidden_layers",
                                   "model.config.hidden_size",
                                   "model.config.num_attention_heads",
                                   "model.config.num_key_value_heads",
                                   "model.config.intermediate_size",
                                   "model.config.vocab_size",
                                   "model.config.head_dim",
                                   "model.config.max_position_embeddings"};
  for (const Key& key : config_keys()) {
    if (key.type == "integer") keys.push_back(key.path);
  }
  return keys;
}

/// What `strata plan` would say; empty: it plans. Anything but a ConfigError fails the test.
std::string outcome(std::vector<std::string> overrides) {
  const std::string file =
      "model: {architecture: llama, config: {num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, "
      "num_key_value_heads: 1, intermediate_size: 24, vocab_size: 40}}\n"
      "data: {path: corpus.txt, sequence_length: 8}\n"
      "train: {batch: 4, precision: bf16}\n"
      "memory: {host: unlimited}\n";
  overrides.push_back("train.validate_every=10");
  std::rotate(overrides.begin(), overrides.end() - 1, overrides.end());
  try {
    const RunConfig config = parse_run_config(file, "run.yaml", overrides);
    nlohmann::json keys = config.model.config;
    keys["model_type"] = config.model.architecture;
    make_plan(config, build_model(parse_architecture(keys, "model.config")));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(SizeLimitLongTest, EveryExtremeOfEveryKeyIsPlannedOrRefusedWithASentence) {
  int refused = 0;
  for (const std::string& key : integer_keys()) {
    for (const std::int64_t value : kExtremes) {
      const std::string setting = fmt::format("{}={}", key, value);
      SCOPED_TRACE(setting);
      std::string sentence;
      EXPECT_NO_THROW(sentence = outcome({setting}));
      if (!sentence.empty()) ++refused;
      const bool is_beyond_all = value < 0 || value > (std::int64_t{1} << 40);
      EXPECT_TRUE(!sentence.empty() || !is_beyond_all || key == "train.seed");
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(SizeLimitLongTest, PairsOfExtremesArePlannedOrRefusedWithASentence) {
  // The batch must be a multiple of the first two.
  constexpr std::array keys = {"train.microbatch",         "parallel.data",           "data.sequence_length",
                               "model.config.hidden_size", "model.config.vocab_size", "train.steps"};
  for (const std::int64_t value :
       {std::int64_t{64}, std::int64_t{1} << 20, std::int64_t{1} << 30, std::int64_t{1} << 40}) {
    for (std::size_t a = 0; a < keys.size(); ++a) {
      for (std::size_t b = a + 1; b < keys.size(); ++b) {
        const std::vector<std::string> settings = {
            fmt::format("train.batch={}", a < 2 ? value : 4), fmt::format("{}={}", keys[a], value),
            fmt::format("{}={}", keys[b], value), "optimizer.clip_norm=0"};
        SCOPED_TRACE(fmt::format("{} {}", settings[1], settings[2]));
        EXPECT_NO_THROW(outcome(settings));
      }
    }
  }
}

TEST(SizeLimit, OfInstructionsNamesTheKeyToChange) {
  EXPECT_THAT(outcome({"train.batch=4194304"}),
              AllOf(HasSubstr("train.batch: 4194304 microbatches"), HasSubstr("train.microbatch")));
  EXPECT_THAT(outcome({"train.validation_batches=4194304"}), HasSubstr("lower train.validation_batches"));
  EXPECT_THAT(outcome({"data.sequence_length=4611686018427387904"}),
              HasSubstr("data.sequence_length: must be at most"));
  EXPECT_THAT(outcome({"data.sequence_length=1073741824", "model.config.vocab_size=1048576"}),
              AllOf(HasSubstr("chunks of 64 tokens, with about 1.68e+08 kernel calls"),
                    HasSubstr("make either smaller")));
}

TEST(CheckedSizes, AreTheNumbersOrAnError) {
  EXPECT_EQ(checked_product(3, 4, 5), 60);
  EXPECT_EQ(checked_sum(kMost, 0), kMost);
  EXPECT_THROW(checked_sum(kMost, 1), ConfigError);
  EXPECT_THROW(checked_product(std::int64_t{1} << 32, std::int64_t{1} << 31), ConfigError);
}

}  // namespace
}  // namespace strata
