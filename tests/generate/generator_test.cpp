// Generation with a cache: the tokens of transformers, those of whole forward passes, and the same ones
// wherever parameters live.
#include "engine/run/generate/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/run/generate/evaluator.h"
#include "tests/generate/tiny_models.h"
#include "tests/model/tiny_model.h"
#include "tests/support/queued_device.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using nlohmann::json;

const json& goldens() {
  static const json read = json::parse(std::ifstream(source_folder() / "tests/generate/goldens.json"));
  return read;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& item : goldens().items()) names.push_back(item.key());
  return names;
}

template <typename T>
std::string name_of_case(const ::testing::TestParamInfo<T>& info) {
  std::string name;
  if constexpr (std::is_same_v<T, std::string>) {
    name = info.param;
  } else {
    name = info.param.name;
  }
  std::ranges::replace(name, '-', '_');
  return name;
}

class GoldenGeneration : public ::testing::TestWithParam<std::string> {
 protected:
  GoldenGeneration()
      : golden_(goldens().at(GetParam())),
        model_(build_forward_model(parse_architecture(golden_.at("config"), GetParam()))),
        read_(made_parameters(model_, golden_.at("seed").get<std::uint64_t>())) {}

  const json& golden_;
  Model model_;
  ReadParameters read_;
};
INSTANTIATE_TEST_SUITE_P(, GoldenGeneration, ::testing::ValuesIn(golden_names()), name_of_case<std::string>);

// Invariant of generation (GoldenGeneration.*): Generation is that of transformers. 200 greedy tokens and the
// mean loss of twelve families equal those of transformers. A key-value cache gives what whole passes give.
// The tokens are the same wherever parameters live.
TEST_P(GoldenGeneration, HasTheTokensOfTransformers) {
  const auto expected = golden_.at("ids").get<std::vector<TokenIds>>();
  EXPECT_EQ(greedy_ids(model_, read_, golden_.at("prompts").get<std::vector<TokenIds>>(),
                       std::ssize(expected.front())),
            expected);
}

TEST_P(GoldenGeneration, HasTheLossOfTransformers) {
  CpuDevice device({.threads = 2, .link = {}});
  EvaluationOptions options;
  options.sequence = golden_.at("window");
  options.batch = 3;
  Evaluator evaluator(device, model_, read_, options);
  auto ids = golden_.at("prompts").at(0).get<TokenIds>();
  const auto more = golden_.at("ids").at(1).get<TokenIds>();
  ids.insert(ids.end(), more.begin(), more.end());
  evaluator.add(ids, {});
  const EvaluationResult result = evaluator.result();
  EXPECT_EQ(result.tokens, std::ssize(ids) - 1);
  EXPECT_NEAR(result.mean_loss(), golden_.at("loss").get<double>(), 1e-5);
}

class GenerationOf : public ::testing::TestWithParam<TinyArchitecture> {};
INSTANTIATE_TEST_SUITE_P(, GenerationOf, ::testing::ValuesIn(tiny_architectures()),
                         name_of_case<TinyArchitecture>);

/// Drawn, so that all of the distribution counts; numbers are drawn for positions.
// Invariant (GenerationOf.*): Generation is that of transformers.
TEST_P(GenerationOf, ByACacheIsThatOfWholePasses) {
  const Model model = build_forward_model(GetParam().architecture);
  const ReadParameters read = made_parameters(model, 5);
  CpuDevice device({.threads = 2, .link = {}});
  GenerationOptions options;
  options.sampling = {.temperature = 1, .seed = 3};
  options.max_tokens = 20;
  const TokenIds prompt = {3, 1, 18, 7, 0};
  const TokenIds ids = Generator(device, model, read, {prompt}, options).run().front().ids;
  TokenIds all = prompt;
  options.max_tokens = 1;
  for (const std::int32_t id : ids) {
    ASSERT_EQ(Generator(device, model, read, {all}, options).run().front().ids, TokenIds{id})
        << "behind " << all.size() << " tokens";
    all.push_back(id);
  }
}

class Generation : public ::testing::Test {
 protected:
  Generation() {
    options_.max_tokens = 16;
    options_.sampling.temperature = 1;
  }

  std::vector<Continuation> run(const std::vector<TokenIds>& prompts) {
    return Generator(device_, model_, read_, prompts, options_).run();
  }
  static Architecture deep() {
    Architecture architecture = tiny_architectures().at(3).architecture;
    architecture.layers = 5;
    return architecture;
  }
  void expect_refusal(const std::vector<TokenIds>& prompts, const std::string& part) {
    try {
      run(prompts);
      FAIL() << "expected: " << part;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
  }

  Model model_ = build_forward_model(deep());
  ReadParameters read_ = made_parameters(model_, 1);
  CpuDevice device_{{.threads = 2, .link = {}}};
  GenerationOptions options_;
  std::vector<TokenIds> prompts_ = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10}};
};

// Invariant (Generation.*): Generation is that of transformers.
TEST_F(Generation, OfAPromptDependsOnItsNumberAndNotOnTheOthers) {
  const std::vector<TokenIds> together = ids_of(run(prompts_));
  EXPECT_EQ(run({prompts_[0]}).front().ids, together[0]);
  EXPECT_EQ(ids_of(run({prompts_[2], prompts_[1]}))[1], together[1]);
  EXPECT_EQ(ids_of(run(prompts_)), together);
  options_.sampling.seed = 1;
  EXPECT_NE(ids_of(run(prompts_)), together);
}

TEST_F(Generation, HasTheSameTokensWhereverParametersLive) {
  for (const DType precision : {DType::fp32, DType::bf16}) {
    options_.precision = precision;
    options_.budget = {};
    Generator everywhere(device_, model_, read_, prompts_, options_);
    const std::vector<TokenIds> expected = ids_of(everywhere.run());
    EXPECT_EQ(everywhere.parameters().streamed_units(), 0U);
    QueuedDevice queued({.threads = 2, .link = {}});
    for (Device* device : {static_cast<Device*>(&device_), static_cast<Device*>(&queued)}) {
      for (const Bytes host : {kUnlimited, Bytes{0}}) {
        options_.budget = {everywhere.device_bytes() - 1, host};
        Generator streamed(*device, model_, read_, prompts_, options_);
        EXPECT_GE(streamed.parameters().streamed_units(), 2U);
        EXPECT_EQ(streamed.parameters().reads_files(), host == 0);
        EXPECT_LE(streamed.device_bytes(), options_.budget.device);
        EXPECT_EQ(ids_of(streamed.run()), expected);
      }
    }
  }
}

TEST_F(Generation, EndsAtAStopTokenTheMostTokensOrTheLongestSequence) {
  const std::vector<Continuation> plain = run(prompts_);
  EXPECT_EQ(plain[0].reason, StopReason::max_tokens);
  EXPECT_EQ(plain[0].ids.size(), 16U);
  options_.stops = {plain[0].ids[3]};
  const std::vector<Continuation> stopped = run(prompts_);
  EXPECT_EQ(stopped[0].reason, StopReason::stop_token);
  const auto first = std::ranges::find(plain[0].ids, plain[0].ids[3]);
  EXPECT_EQ(stopped[0].ids, TokenIds(plain[0].ids.begin(), first + 1));
  options_.stops = {};
  options_.max_tokens = 1000;
  const std::vector<Continuation> longest = run(prompts_);
  EXPECT_EQ(longest[2].reason, StopReason::longest_sequence);
  EXPECT_EQ(longest[2].ids.size() + prompts_[2].size(), 32U);
}

TEST_F(Generation, SaysEachTokenAsItComes) {
  std::vector<TokenIds> said(prompts_.size());
  Generator generator(device_, model_, read_, prompts_, options_);
  const auto continuations =
      generator.run([&](std::size_t prompt, std::int32_t token) { said[prompt].push_back(token); });
  EXPECT_EQ(said, ids_of(continuations));
  EXPECT_EQ(generator.figures().new_tokens, 48);
  EXPECT_EQ(generator.figures().prompt_tokens, 10);
}

TEST_F(Generation, RefusesPromptsThatTheModelCannotTake) {
  expect_refusal({}, "there is no prompt");
  expect_refusal({{1}, {}}, "prompt 2 has no tokens");
  expect_refusal({{1, 19}}, "prompt 1 has the token 19, and the model's vocabulary ends at 18");
  expect_refusal({TokenIds(32, 1)}, "prompt 1 has 32 tokens, and the model's longest sequence has 32");
}

TEST_F(Generation, RefusesBudgetsAndSaysWhatWorks) {
  Generator everywhere(device_, model_, read_, prompts_, options_);
  options_.budget.device = 1000;
  expect_refusal(prompts_, "the cache of keys and values and the activations alone take");
  options_.budget.device = everywhere.device_bytes() - everywhere.parameters().device_bytes() + 1000;
  expect_refusal(prompts_, "too little for the parameters: embedding, head and two blocks take");
}

TEST_F(Generation, FailsWithWhatReadingFailedWith) {
  Generator everywhere(device_, model_, read_, prompts_, options_);
  options_.budget = {everywhere.device_bytes() - 1, 0};
  const ReadParameters plain = read_;
  int reads = 0;
  read_ = [&](std::size_t unit, FlatRange range, std::span<float> out) {
    if (++reads > 30) throw IoError("the file is gone");
    plain(unit, range, out);
  };
  EXPECT_THROW(run(prompts_), IoError);
}

TEST_F(Generation, OfUntrainedTokensCountsNone) {
  EvaluationOptions options;
  options.sequence = 8;
  options.text_bytes = [](std::int32_t) { return 2; };
  Evaluator evaluator(device_, model_, read_, options);
  const TokenIds ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<std::uint8_t> trained(ids.size(), 0);
  trained[3] = trained[10] = 1;
  evaluator.add(ids, trained);
  const EvaluationResult some = evaluator.result();
  EXPECT_EQ(some.tokens, 2);
  EXPECT_EQ(some.text_bytes, 4);
  EXPECT_THROW(evaluator.add(TokenIds{1, 19}, {}), ConfigError);
  for (std::uint8_t& each : trained) each = each == 0 ? 1 : 0;
  evaluator.add(ids, trained);
  evaluator.add(TokenIds{1}, {});
  const EvaluationResult all = evaluator.result();
  EXPECT_EQ(all.tokens, 10);
  Evaluator once(device_, model_, read_, options);
  once.add(ids, {});
  EXPECT_NEAR(once.result().loss_sum, all.loss_sum, 1e-4);
}

}  // namespace
}  // namespace strata::test
