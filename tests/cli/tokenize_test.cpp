// strata tokenize, as a user runs it.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "tests/cli/workspace.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

class TokenizeCommands : public Workspace {
 protected:
  TokenizeCommands() {
    std::filesystem::create_directory(path("model"));
    std::filesystem::copy_file(source_folder() / "tests/text/goldens/gpt2.tokenizer.json",
                               path("model/tokenizer.json"));
  }
};

TEST_F(TokenizeCommands, MakeWhatTrainingReads) {
  write("model/tokenizer_config.json", R"({"eos_token": {"content": "<|endoftext|>"}})");
  const Outcome made = strata({"tokenize", "model", "tokens", "corpus.txt", "run.*"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, ::testing::HasSubstr("wrote tokens.bin and tokens.idx: "));
  EXPECT_THAT(made.out, ::testing::HasSubstr(" of 2 texts"));
  const nlohmann::json trained =
      report(train("run.yaml", {"data.path=tokens", "data.tokenizer=none", "model.config.vocab_size=400"}));
  EXPECT_GT(trained["tokens_per_second"], 0);
}

TEST_F(TokenizeCommands, AskWhichTokenEndsATextIfNothingSays) {
  const Arguments plain = {"tokenize", "model", "tokens", "corpus.txt"};
  expect_sentence(strata(plain), 2, {"model/tokenizer_config.json names no eos_token", "--end", "--no-end"});
  Arguments other = plain, none = plain;
  other.insert(other.end(), {"--end", "<|nothing|>"});
  expect_sentence(strata(other), 2, {"the tokenizer has no token '<|nothing|>'"});
  none.emplace_back("--no-end");
  EXPECT_EQ(strata(none).status, 0);
  expect_sentence(strata(none), 2, {"tokens.bin exists already"});
  write("model/tokenizer_config.json", R"({"eos_token": 7})");
  expect_sentence(strata(plain), 2, {"model/tokenizer_config.json: eos_token: a text is expected here"});
}

TEST_F(TokenizeCommands, SayWhatIsMissingOrDamaged) {
  expect_sentence(strata({"tokenize", "model", "tokens", "nowhere*", "--no-end"}), 2,
                  {"no file matches nowhere*"});
  expect_sentence(strata({"tokenize", "nothing", "tokens", "corpus.txt", "--no-end"}), 2,
                  {"nothing is not there: name a model's folder"});
  write("model/tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}})");
  expect_sentence(strata({"tokenize", "model", "tokens", "corpus.txt", "--no-end"}), 2,
                  {"model/tokenizer.json", "merges"});
}

TEST_F(TokenizeCommands, AreNotNeededWhereTrainingDoesItByItself) {
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  ASSERT_EQ(strata({"tokenize", "model", "tokens", "corpus.txt"}).status, 0);
  const Arguments by_hand = {"data.path=tokens", "data.tokenizer=none", "model.config.vocab_size=400"};
  const Arguments by_itself = {"data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
                               "model.config.vocab_size=400"};
  const std::string expected = state_hash(train("run.yaml", by_hand));
  EXPECT_EQ(state_hash(train("run.yaml", by_itself)), expected);
  EXPECT_EQ(state_hash(train("run.yaml", by_itself)), expected);
  const auto entries = std::filesystem::directory_iterator(path("cache"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  Arguments none = by_itself;
  none.erase(none.begin() + 1);
  expect_sentence(strata(train("run.yaml", none)), 2,
                  {"data.tokenizer", "auto needs a tokenizer.json: set data.tokenizer_path"});
}

TEST_F(TokenizeCommands, AreNotNeededForSeveralSourcesWhichGoOnWithTheirNextSamples) {
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  write("other.txt", read_file(path("corpus.txt")).substr(100) + "something else entirely");
  const auto run = [](const std::string& weight, const std::string& steps, const std::string& out) {
    Arguments arguments = train(
        "run.yaml",
        {"data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
         "model.config.vocab_size=400", "train.steps=" + steps, "checkpoint.path=" + out, "data.path=[]",
         "data.sources=[{path: corpus.txt, weight: 0.7}, {path: other.txt, weight: " + weight + "}]"});
    return arguments;
  };
  const std::string expected = state_hash(run("0.3", "4", "whole"));
  state_hash(run("0.3", "2", "parts"));
  EXPECT_EQ(state_hash(run("0.3", "4", "parts")), expected);
  const Outcome changed = strata(run("0.4", "5", "whole"));
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_THAT(changed.err, ::testing::HasSubstr("the run goes on with other samples"));
  EXPECT_EQ(strata(run("0.3", "5", "parts")).err.find("other samples"), std::string::npos);
}

TEST_F(TokenizeCommands, AreNotNeededForConversations) {
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  write("model/chat_template.jinja",
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}");
  std::string talks;
  for (int i = 0; i < 60; ++i)
    talks += R"({"messages": [{"role": "user", "content": "question )" + std::to_string(i * i) +
             R"("}, {"role": "assistant", "content": "an answer of some words"}]})" + "\n";
  write("talks.jsonl", talks);
  const Arguments arguments = {"data.path=talks.jsonl",      "data.tokenizer=auto",
                               "data.tokenizer_path=model",  "data.cache=cache",
                               "data.validation_fraction=0", "data.sequence_length=16",
                               "train.validate_every=0",     "model.config.vocab_size=400"};
  const nlohmann::json trained = report(train("run.yaml", arguments));
  EXPECT_GT(trained["tokens_per_second"], 0);
  write("talks.jsonl", talks + R"({"messages": [{"role": "user", "content": 3)");
  expect_sentence(strata(train("run.yaml", arguments)), 2, {"talks.jsonl:61:", "this is not valid JSON"});
  write("talks.jsonl", talks);
  write("model/chat_template.jinja", "{% for m in messages %}\n{{ nothing.at.all }}{% endfor %}");
  expect_sentence(strata(train("run.yaml", arguments)), 2,
                  {"talks.jsonl:1: ", "chat_template.jinja: line 2: "});
}

TEST_F(TokenizeCommands, AreNotNeededOnRanks) {
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  const Outcome done = strata_on_ranks(
      2, train("run.yaml", {"data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
                            "model.config.vocab_size=400", "parallel.data=2", "train.steps=1"}));
  EXPECT_EQ(done.status, 0) << done.err;
}

}  // namespace
}  // namespace strata::test
