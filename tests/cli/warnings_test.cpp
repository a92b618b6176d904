// What is legal, but likely not meant, gets one line, and a run that learned nothing does not end as if it
// had.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Warning : public Workspace {};

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(Warning, OfABatchLargerThanTheDataNamesBoth) {
  write("short.txt", std::string(24 * 3 + 1, 'x'));
  const Arguments few = {"data.path=short.txt", "data.validation_fraction=0", "train.steps=1"};
  const Outcome repeated = strata(train("run.yaml", few));
  EXPECT_EQ(repeated.status, 0) << repeated.err;
  EXPECT_THAT(repeated.err, HasSubstr("warning: train.batch: 4 sequences per step are more than the 3"));
  EXPECT_THAT(strata(train("run.yaml", {"train.steps=1"})).err, Not(HasSubstr("warning")));
}

TEST_F(Warning, OfBytesForAModelOfAnotherVocabularyNamesIt) {
  write("wide.yaml", run_file());
  const Arguments wide = {"model.config.vocab_size=300", "train.steps=1", "checkpoint.path=wide"};
  ASSERT_EQ(strata(train("run.yaml", wide)).status, 0);
  ASSERT_EQ(strata({"export", "run.yaml", "model", "--set", wide[0], "--set", wide[2]}).status, 0);
  write("hf.yaml",
        "model: {path: model}\ndata: {path: corpus.txt, sequence_length: 24}\ntrain: {steps: 1}\n");
  const Outcome outcome = strata(train("hf.yaml"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("warning: data.tokenizer is bytes, but the model in model has a vocabulary of 300"));
}

TEST_F(Warning, OfTheDropoutOfAFolderOfAdaptersNamesBoth) {
  const Arguments adapters = {"adapter.type=lora", "train.steps=1", "checkpoint.path=out"};
  ASSERT_EQ(strata(train("run.yaml", adapters)).status, 0);
  ASSERT_EQ(strata({"export", "run.yaml", "adapters", "--set", adapters[0], "--set", adapters[2]}).status, 0);
  const std::string name = "adapters/adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(std::ifstream(path(name)));
  EXPECT_EQ(config["lora_dropout"], 0);
  config["lora_dropout"] = 0.25;
  write(name, config.dump());
  const auto warnings = [&](const Arguments& more) {
    Arguments overrides = {"adapter.type=lora", "adapter.path=adapters", "train.steps=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return strata(train("run.yaml", overrides)).err;
  };
  EXPECT_THAT(warnings({}),
              HasSubstr("warning: adapters/adapter_config.json: lora_dropout is 0.25, and this run "
                        "drops what adapter.dropout says, 0"));
  EXPECT_THAT(warnings({"adapter.dropout=0.25"}), Not(HasSubstr("warning")));
}

/// What it would answer is noise.
void expect_no_use_of_the_model(const std::string& said) {
  for (const char* command : {"  try it  ", "  export  ", "  train on  "})
    EXPECT_THAT(said, Not(HasSubstr(command)));
}

TEST_F(Warning, OfARunThatUpdatedNothingEndsItWithStatusOne) {
  const Arguments infinite = {"train.precision=fp16", "train.loss_scale.initial=1e38",
                              "train.loss_scale.backoff=0.999", "train.steps=14", "checkpoint.path=out"};
  const Outcome outcome = strata(train("run.yaml", infinite));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      outcome.err,
      HasSubstr("strata: the run has learned nothing: none of its 14 steps made an update, the last of them "
                "for gradients that are not finite"));
  EXPECT_TRUE(std::filesystem::exists(path("out") / "step-00000014")) << "what was saved is kept";
  const std::string again = strata(train("run.yaml", infinite)).err;
  for (const std::string& said : {outcome.err, again}) expect_no_use_of_the_model(said);
  EXPECT_EQ(count_of("gradients that are not finite update nothing", outcome.err), 10);
  EXPECT_EQ(count_of("warning: 10 steps in a row have updated nothing", outcome.err), 1);
}

TEST_F(Warning, OfStepsInARowThatUpdateNothingEndsTheRun) {
  const Arguments infinite = {"train.precision=fp16", "train.loss_scale.initial=1e38",
                              "train.loss_scale.backoff=0.999", "train.steps=1000", "checkpoint.path=out"};
  const Outcome outcome = strata(train("run.yaml", infinite));
  expect_sentence({outcome.status, "", outcome.err}, 1,
                  {"20 steps in a row updated nothing", "gradients that are not finite",
                   "train.max_skipped_steps", "try a smaller optimizer.lr"});
  EXPECT_THAT(outcome.err, HasSubstr("the model is in out/step-0000002")) << "its weights are whole";
  expect_no_use_of_the_model(outcome.err);
}

TEST_F(Warning, OfCurvesThatCannotGoOnLeavesTheRunGood) {
  const Outcome outcome = strata(train("run.yaml", {"report.tensorboard=curves", "train.steps=20"}),
                                 {.folder = {}, .largest_file = 2 * KiB});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count_of("warning: report.tensorboard: ", outcome.err), 1);
  EXPECT_THAT(outcome.err, HasSubstr("the curves end here"));
}

TEST_F(Warning, OfSomeSkippedStepsLeavesTheRunGood) {
  const Arguments backing_off = {"train.precision=fp16", "train.loss_scale.initial=1e9",
                                 "train.loss_scale.backoff=0.001"};
  const Outcome outcome = strata(train("run.yaml", backing_off));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GE(count_of("update nothing", outcome.err), 1);
}

}  // namespace
}  // namespace strata::test
