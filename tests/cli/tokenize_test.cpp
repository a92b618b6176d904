// strata tokenize, as a user runs it.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "base/json_text.h"
#include "tests/cli/workspace.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

class TokenizeCommands : public Workspace {
 protected:
  TokenizeCommands() {
    std::filesystem::create_directory(path("model"));
    std::filesystem::copy_file(source_folder() / "tests/text/goldens/gpt2.tokenizer.json",
                               path("model/tokenizer.json"));
  }
};

// Invariant (TokenizeCommands.*): Tokens are those of the original.
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

TEST_F(TokenizeCommands, NeedNoEndForConversations) {
  write("model/chat_template.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  const std::string talk =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  write("talk.jsonl", talk);
  const Outcome made = strata({"tokenize", "model", "tokens", "talk.jsonl"});
  EXPECT_EQ(made.status, 0) << made.err;
  write("both.jsonl", talk + "\n" + R"({"text": "a"})");
  expect_sentence(strata({"tokenize", "model", "both", "both.jsonl"}), 2,
                  {"both.jsonl:2: ", "names no eos_token", "--end", "--no-end"});
}

/// One convention in training, evaluation, generation and samples.
class BeginTokens : public TokenizeCommands {
 protected:
  BeginTokens() {
    nlohmann::json tokenizer = read_json_object(path("model/tokenizer.json"));
    tokenizer["post_processor"] = nlohmann::json::parse(
        R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"B": {"id": "B", "ids": [5], "tokens": ["B"]}}})");
    write("model/tokenizer.json", tokenizer.dump());
    write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"})");
    write("short.txt", "a small text");
  }

  /// The first id of a text, by strata tokenize.
  int first_id(const Arguments& options, const std::string& name) {
    Arguments arguments = {"tokenize", "model", name, "short.txt"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome made = strata(arguments);
    EXPECT_EQ(made.status, 0) << made.err;
    const std::string ids = read_file(path(name + ".bin"));
    return static_cast<unsigned char>(ids[0]) + 256 * static_cast<unsigned char>(ids[1]);
  }

  int first_id_of_prompt(const Arguments& options) {
    Arguments arguments = {"generate", "out", "--prompt", "a small text", "--max-tokens", "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return report(arguments)["continuations"][0]["prompt_ids"][0];
  }
};

TEST_F(BeginTokens, AreThoseOfThePostProcessorUnlessOneSaysOtherwise) {
  EXPECT_EQ(first_id({}, "auto"), 5);
  EXPECT_NE(first_id({"--begin-token", "never"}, "never"), 5);
  EXPECT_EQ(first_id({"--begin-token", "always"}, "always"), 5);
  std::filesystem::copy_file(source_folder() / "tests/text/goldens/gpt2.tokenizer.json",
                             path("model/tokenizer.json"), std::filesystem::copy_options::overwrite_existing);
  const int plain = first_id({}, "plain");
  EXPECT_NE(first_id({"--begin-token", "always"}, "plain-always"), plain) << "the bos_token";
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  expect_sentence(strata({"tokenize", "model", "none", "short.txt", "--begin-token", "always"}), 2,
                  {"begin_token always: model/tokenizer_config.json names no bos_token"});
}

TEST_F(BeginTokens, AreSaidOnceOfModelsThatShareTheirTexts) {
  write("sweep.yaml", run_file() + "checkpoint: none\nsweep: {train.seed: [3, 4]}\n");
  const std::string said =
      strata(train("sweep.yaml", {"data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
                                  "model.config.vocab_size=400", "train.steps=1"}))
          .err;
  const std::size_t first = said.find("texts    begin with ");
  ASSERT_NE(first, said.npos) << said;
  EXPECT_EQ(said.find("texts    begin with ", first + 1), said.npos) << said;
}

TEST_F(BeginTokens, AreThoseOfTheRunInGenerationAndEvaluation) {
  const auto run = [&](const std::string& begin) {
    return train("run.yaml", {"data.tokenizer=auto", "data.tokenizer_path=model", "data.cache=cache",
                              "model.config.vocab_size=400", "train.steps=1", "checkpoint.path=out",
                              "data.begin_token=" + begin});
  };
  Outcome done = strata(run("auto"));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, ::testing::HasSubstr("texts    begin with "));
  EXPECT_EQ(first_id_of_prompt({}), 5);
  const Arguments evaluate = {"evaluate", "out", "--data", "short.txt"};
  const auto tokens = [&](const Arguments& options) {
    Arguments arguments = evaluate;
    arguments.insert(arguments.end(), options.begin(), options.end());
    return report(arguments)["tokens"].get<int>();
  };
  EXPECT_EQ(tokens({}), tokens({"--begin-token", "never"}) + 1)
      << "the first token of the text is predicted, too";
  std::filesystem::remove_all(path("out"));
  done = strata(run("never"));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, ::testing::HasSubstr("texts    begin with no token (data.begin_token)"));
  EXPECT_NE(first_id_of_prompt({}), 5);
  EXPECT_EQ(first_id_of_prompt({"--begin-token", "auto"}), 5);
  EXPECT_EQ(tokens({}), tokens({"--begin-token", "never"}));
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
  EXPECT_THAT(changed.err, ::testing::HasSubstr("the run continues with other samples"));
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

TEST_F(TokenizeCommands, ShowWhatOfASampleIsTrainedOn) {
  write("model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  write("pairs.jsonl", R"({"prompt": "What is the sky?", "completion": " It is green."})"
                       "\n"
                       R"({"prompt": "And the sea?", "completion": " It is red."})"
                       "\n");
  const auto shown = [&](const Arguments& overrides) {
    Arguments arguments = {"tokenize", "--show", "1", "run.yaml"};
    for (const std::string& given : overrides) arguments.insert(arguments.end(), {"--set", given});
    return strata(arguments);
  };
  const Arguments pairs = {
      "data.path=pairs.jsonl", "data.tokenizer=auto",        "data.tokenizer_path=model",
      "data.cache=cache",      "data.validation_fraction=0", "data.sequence_length=48",
      "data.packing=whole",    "data.shuffle=false",         "model.config.vocab_size=400"};
  const Outcome sample = shown(pairs);
  EXPECT_EQ(sample.status, 0) << sample.err;
  EXPECT_THAT(sample.out, HasSubstr("data     1 file: 2 prompts with completions, "));
  EXPECT_THAT(sample.out, HasSubstr("  -     8  \"What is the sky?\"\n"
                                    "  +     9  \" It is green.<|endoftext|>\"\n"
                                    "  next document\n"
                                    "  -     6  \"And the sea?\"\n"));
  const Outcome text = shown({});
  EXPECT_THAT(text.out, HasSubstr("sample 1: 25 tokens, 24 trained on (+), 1 not (-)\n  -     1  \""));
  EXPECT_EQ(text.out, shown({}).out);
  expect_sentence(strata({"tokenize", "--show", "1", "run.yaml", "more"}), 2, {"--show: takes one run file"});
  expect_sentence(strata({"tokenize", "model"}), 2, {"tokenize: give a tokenizer, the prefix", "--show N"});
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
