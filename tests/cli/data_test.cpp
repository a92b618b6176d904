// What a run reads: said before its first step and in every report, with a warning where it is likely not
// meant, and refused where it is data in a form that is not read.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/counts.h"
#include "base/file.h"
#include "tests/cli/workspace.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Data : public Workspace {
 protected:
  Data() {
    std::filesystem::create_directory(path("model"));
    const std::filesystem::path tests = source_folder() / "tests";
    std::filesystem::copy_file(tests / "text/goldens/gpt2.tokenizer.json", path("model/tokenizer.json"));
    std::filesystem::copy_file(tests / "chat/templates/chatml_generation.jinja",
                               path("model/chat_template.jinja"));
    write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  }

  /// A run of one step on this file by the model's tokenizer.
  static Arguments tokenized(const std::string& file, const Arguments& more = {}) {
    Arguments overrides = {
        "data.path=" + file,           "data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
        "model.config.vocab_size=400", "train.steps=1",       "data.sequence_length=8",    "train.batch=2",
        "train.microbatch=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return train("run.yaml", overrides);
  }
  std::string warnings_of(const Arguments& arguments) const {
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  }
  nlohmann::json first_line(const std::string& metrics) const {
    std::ifstream file(path(metrics));
    std::string line;
    std::getline(file, line);
    return nlohmann::json::parse(line);
  }
  /// Conversations in a .jsonl: questions of `asked` words each, and answers of `answered` words.
  void write_talks(const std::string& name, int asked, int answered) const {
    const auto words = [](int count) {
      std::string text = "a";
      for (int i = 0; i < count; ++i) text += fmt::format(" {}", i);
      return text;
    };
    std::string lines;
    for (int i = 0; i < 8; ++i)
      lines += nlohmann::json{{"messages",
                               {{{"role", "user"}, {"content", words(asked)}},
                                {{"role", "assistant"}, {"content", words(answered)}}}}}
                   .dump() +
               "\n";
    write(name, lines);
  }
};

TEST_F(Data, ThatWasReadIsSaidBeforeTheFirstStepAndInEveryReport) {
  const Arguments run = train("run.yaml", {"report.metrics=m.jsonl", "data.path=[corpus.txt, run.yaml]"});
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path("corpus.txt")) +
                                               std::filesystem::file_size(path("run.yaml")));
  const nlohmann::json data = report(run).at("data");
  EXPECT_EQ(data.at("files"), 2);
  EXPECT_EQ(data.at("documents"), 2);
  EXPECT_EQ(data.at("tokens"), bytes + 2);
  EXPECT_EQ(data.at("trained_tokens"), bytes + 2);
  const double sequences = data.at("sequences_per_epoch");
  EXPECT_NEAR(sequences, static_cast<double>(bytes + 2) * 0.95 / 24, 2);
  EXPECT_DOUBLE_EQ(data.at("epochs"), 6 * 4 / sequences);
  EXPECT_EQ(first_line("m.jsonl").at("data"), data);
  EXPECT_EQ(first_line("m.jsonl").at("step"), 1);
  const Outcome outcome = strata(run);
  const std::string said =
      fmt::format("data     2 files: 2 texts, {} tokens, all trained on; {} sequences an epoch, ",
                  grouped(bytes + 2), sequences);
  EXPECT_THAT(outcome.err, HasSubstr(said));
  EXPECT_LT(outcome.err.find("data     2 files"), outcome.err.find("step 1/6"));
}

TEST_F(Data, OfEachModelIsInItsReports) {
  write("sweep.yaml", run_file() + "sweep: {train.steps: [1, 2]}\nreport: {metrics: m.jsonl}\n");
  const nlohmann::json models = report(train("sweep.yaml")).at("models");
  EXPECT_EQ(models.at(0).at("data").at("files"), 1);
  EXPECT_DOUBLE_EQ(models.at(1).at("data").at("epochs"),
                   2 * models.at(0).at("data").at("epochs").get<double>());
  EXPECT_TRUE(first_line("m.jsonl").contains("data"));
}

TEST_F(Data, MakeStepsOfEpochs) {
  const auto of = [&](const char* epochs) {
    return report(train("run.yaml", {std::string("train.epochs=") + epochs, "checkpoint.path=none"}));
  };
  const nlohmann::json one = of("1"), part = of("0.25");
  const std::int64_t sequences = one.at("data").at("sequences_per_epoch");
  EXPECT_EQ(one.at("steps"), (sequences + 3) / 4);
  EXPECT_EQ(part.at("steps"), (sequences + 15) / 16);
  EXPECT_NEAR(part.at("data").at("epochs"), 0.25, 4.0 / static_cast<double>(sequences));
  EXPECT_EQ(state_hash(train("run.yaml", {fmt::format("train.steps={}", one.at("steps").get<int>())})),
            one.at("state_hash"));
}

TEST_F(Data, OfModelsMakeEachItsOwnStepsOfEpochs) {
  write("sweep.yaml", run_file() + "sweep: {train.epochs: [0.125, 0.25]}\n");
  const nlohmann::json models = report(train("sweep.yaml")).at("models");
  EXPECT_LT(models.at(0).at("steps"), models.at(1).at("steps"));
  const Outcome again = strata(train("sweep.yaml"));
  EXPECT_EQ(again.status, 0) << again.err;
  write("rungs.yaml",
        run_file() + "sweep: {train.seed: [1, 2]}\nselect: {rung_steps: [9000]}\ncheckpoint: none\n");
  expect_sentence(
      strata(train("rungs.yaml", {"train.epochs=0.5"})), 2,
      {"select.rung_steps: 9000 is not less than the ", " steps of model 'seed=1'", "0.5 epochs"});
}

/// A resumed run is told if its learning rate would go another way.
TEST_F(Data, LeaveTheScheduleThatWasUsedInTheCheckpoint) {
  const Arguments shortened =
      train("run.yaml", {"checkpoint.path=out", "train.steps=2", "optimizer.schedule.warmup=1"});
  ASSERT_EQ(strata(shortened).status, 0);
  const nlohmann::json manifest = nlohmann::json::parse(read_file(path("out/step-00000002/manifest.json")));
  EXPECT_EQ(manifest.at("schedule").at("warmup"), 1);
  EXPECT_EQ(manifest.at("schedule").at("steps"), 2);
  const Outcome longer =
      strata(train("run.yaml", {"checkpoint.path=out", "train.steps=3", "optimizer.schedule.warmup=1"}));
  EXPECT_THAT(longer.err, Not(HasSubstr("warning")));
  const Outcome other =
      strata(train("run.yaml", {"checkpoint.path=out", "train.steps=4", "optimizer.schedule.warmup=2"}));
  EXPECT_THAT(other.err, HasSubstr("warning: the learning rate's schedule is not that of the checkpoint"));
}

/// A --set that was a try does not pass unseen.
TEST_F(Data, WhoseSettingsAreNotThoseOfTheCheckpointAreNamed) {
  const auto said = [&](const std::string& steps, const std::string& length) {
    const Outcome outcome = strata(
        train("run.yaml", {"checkpoint.path=out", "train.steps=" + steps, "data.sequence_length=" + length}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  said("1", "24");
  EXPECT_THAT(said("2", "24"), Not(HasSubstr("warning")));
  EXPECT_THAT(
      said("3", "16"),
      HasSubstr("warning: data.sequence_length is not that of the checkpoint: it was 24, and is 16 now"));
  EXPECT_THAT(said("4", "16"), Not(HasSubstr("warning")));
}

TEST_F(Data, OfConversationsIsCountedWithWhatOfItIsTrainedOn) {
  write_talks("talks.jsonl", 10, 10);
  for (int i = 0; i < 2; ++i) {  // made, and found in the cache
    const nlohmann::json data = report(tokenized("talks.jsonl")).at("data");
    EXPECT_EQ(data.at("documents"), 8);
    EXPECT_EQ(data.at("read_as"), nlohmann::json({{"conversations", 8}}));
    EXPECT_GT(data.at("trained_tokens"), data.at("tokens").get<int>() / 4);
    EXPECT_LT(data.at("trained_tokens"), data.at("tokens").get<int>() / 2);
  }
  EXPECT_THAT(warnings_of(tokenized("talks.jsonl")), Not(HasSubstr("warning")));
}

TEST_F(Data, WithNextToNothingToTrainOnIsWarnedOf) {
  write_talks("talks.jsonl", 400, 0);
  EXPECT_THAT(
      warnings_of(tokenized("talks.jsonl", {"data.validation_fraction=0", "data.sequence_length=128"})),
      HasSubstr("tokens are trained on, 0."));
}

TEST_F(Data, InAnotherEncodingIsWarnedOf) {
  write("latin.txt", "\xEF\xBB\xBF" + std::string("gr\xFCn ist das Boot. ") + std::string(200, 'x'));
  const std::string said = warnings_of(tokenized("latin.txt"));
  EXPECT_THAT(
      said, HasSubstr("warning: data: 1 places are no UTF-8 and are read as U+FFFD, the first in latin.txt"));
  EXPECT_THAT(said, HasSubstr("warning: data: 1 file begins with a byte order mark, which is left out"));
  EXPECT_THAT(
      warnings_of(train("run.yaml", {"data.path=latin.txt", "train.steps=1", "data.sequence_length=8"})),
      HasSubstr("warning: data: 1 file begins with a byte order mark"));
}

TEST_F(Data, OfLongerSequencesThanTheModelsPositionsIsWarnedOf) {
  const Arguments run = train("run.yaml", {"model.config.max_position_embeddings=16", "train.steps=1"});
  EXPECT_THAT(warnings_of(run),
              HasSubstr("warning: data.sequence_length: 24 tokens are more than the 16 positions"));
}

/// A tokenizer.json that was left from another model, or a config.json from before tokens were added.
TEST_F(Data, ByATokenizerOfMoreIdsThanTheModelHasIsDoubted) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a";
  write("few.txt", text);
  EXPECT_THAT(warnings_of(tokenized("few.txt")), Not(HasSubstr("has ids up to")));
  EXPECT_THAT(
      warnings_of(tokenized("few.txt", {"model.config.vocab_size=399"})),
      HasSubstr("warning: model/tokenizer.json has ids up to 399, and the model's vocabulary ends at 398: is "
                "it another model's"));
}

TEST_F(Data, InAFormThatIsNotReadIsRefused) {
  write("lines.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  write("table.csv", "a,b\n");
  const auto outcome = [&](const Arguments& overrides) { return strata(train("run.yaml", overrides)); };
  expect_sentence(outcome({"data.path=lines.json"}), 2,
                  {"lines.json: it holds JSON records", "data.tokenizer to auto"});
  expect_sentence(outcome({"data.path=table.csv"}), 2, {"table.csv: this is a table", "data.format: text"});
  expect_sentence(outcome({"data.format=records"}), 2,
                  {"data.format", "records are read with data.tokenizer auto"});
  expect_sentence(outcome({"data.format=tokens"}), 2,
                  {"data.format", "tokens are read with data.tokenizer none"});
  expect_sentence(outcome({"data.fields={text: body}"}), 2,
                  {"data.fields", "which are read with data.tokenizer auto"});
  expect_sentence(outcome({"data.fields={body: text}"}), 2, {"data.fields", "body: is no field of a record"});
  write("long.csv", std::string(500, 'x'));
  EXPECT_EQ(outcome({"data.path=long.csv", "data.format=text"}).status, 0);
}

TEST_F(Data, OfOtherNamesIsReadAsTheRunFileSays) {
  write("odd.txt", "{\"body\": \"" + std::string(300, 'x') + "\", \"text\": 7}\n");
  const Arguments named = {"data.format=records", "data.fields={text: body}"};
  EXPECT_EQ(report(tokenized("odd.txt", named)).at("data").at("read_as"), nlohmann::json({{"texts", 1}}));
  const Outcome made =
      strata({"tokenize", "model", "tokens", "odd.txt", "--format", "records", "--field", "text=body"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("read 1 text\n"));
  expect_sentence(strata({"tokenize", "model", "other", "odd.txt", "--field", "body=text"}), 2,
                  {"'body=text' is not FIELD=KEY"});
  std::filesystem::rename(path("tokens.bin"), path("ids.data"));
  const Arguments ids = {"data.path=ids.data", "data.tokenizer=none", "model.config.vocab_size=400",
                         "train.steps=1", "data.sequence_length=8"};
  expect_sentence(strata(train("run.yaml", ids)), 2,
                  {"is not a .bin file of token ids", "data.format to tokens"});
}

}  // namespace
}  // namespace strata::test
