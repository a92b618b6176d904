// strata generate and strata evaluate, as a user runs them.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/cli/workspace.h"
#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

class GenerateCommands : public Workspace {
 protected:
  Arguments on_model(const std::string& command, const std::string& model, const Arguments& more) const {
    Arguments arguments = {command, model, "--tokenizer", "bytes", "--precision", "fp32", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

/// A checkpoint and the folder that it is exported to are one model.
TEST_F(GenerateCommands, SayTheSameOfACheckpointAndOfItsExport) {
  make_model_folder("model");
  const Arguments prompts = {"--prompt", "the ", "--prompt", "a", "--max-tokens", "12"};
  const nlohmann::json of_folder = report(on_model("generate", "model", prompts));
  const nlohmann::json of_checkpoint = report(on_model("generate", "out", prompts));
  ASSERT_EQ(of_folder["continuations"].size(), 2U);
  EXPECT_EQ(of_folder["continuations"], of_checkpoint["continuations"]);
  EXPECT_EQ(of_folder["prompt_tokens"], 5);
  EXPECT_GT(of_folder["tokens_per_second"], 0);
  Arguments few = prompts;
  const auto bytes = of_folder["memory"]["device_bytes"].get<std::int64_t>();
  few.insert(few.end(), {"--device-memory", std::to_string(bytes - 1), "--host-memory", "0"});
  const nlohmann::json streamed = report(on_model("generate", "model", few));
  EXPECT_EQ(streamed["continuations"], of_folder["continuations"]);
  EXPECT_GT(streamed["memory"]["streamed_units"], 0);
  EXPECT_EQ(streamed["memory"]["reads_files"], true);

  const Arguments data = {"--data", "corpus.txt", "--sequence", "16"};
  const nlohmann::json losses = report(on_model("evaluate", "model", data));
  EXPECT_EQ(losses["loss"], report(on_model("evaluate", "out", data))["loss"]);
  EXPECT_EQ(losses["text_bytes"], losses["tokens"]);
  EXPECT_NEAR(losses["bits_per_byte"].get<double>() * 0.6931472, losses["loss"].get<double>(), 1e-6);

  const Outcome spoken = strata(on_model("generate", "model", {"--prompt", "the ", "--max-tokens", "12"}));
  EXPECT_EQ(spoken.out, of_folder["continuations"][0]["text"].get<std::string>() + "\n");
  EXPECT_THAT(spoken.err, ::testing::HasSubstr("tokens/s"));
  expect_sentence(strata({"generate", "out", "--prompt", "a"}), 2, {"has no tokenizer", "--tokenizer"});
  expect_sentence(strata(on_model("generate", "model", {})), 2, {"there is no prompt", "--prompt"});
  for (const char* option : {"--temperature", "--top-p"})
    expect_sentence(strata(on_model("generate", "model", {"--prompt", "a", option, "nan"})), 2,
                    {std::string(option) + ": nan is not in [0, 1"});
  expect_sentence(strata(on_model("generate", "model", {"--prompt", "a", "--chat"})), 2, {"--chat needs"});
  expect_sentence(strata(on_model("generate", "model", {"--prompt", "a", "--device-memory", "20kB"})), 2,
                  {"too little"});
  expect_sentence(strata(on_model("evaluate", "model", {"--data", "corpus.txt", "--sequence", "100000"})), 2,
                  {"windows of 100000 tokens", "longest sequence"});
}

TEST_F(GenerateCommands, TakeMovingAveragesInThePlaceOfWeightsIfAsked) {
  ASSERT_EQ(
      strata(train("run.yaml", {"checkpoint.path=out", "train.ema.decay=0.9", "optimizer.type=lion"})).status,
      0);
  ASSERT_EQ(strata({"export", "out", "weights"}).status, 0);
  ASSERT_EQ(strata({"export", "out", "averages", "--ema"}).status, 0);
  const auto loss_of = [&](const std::string& model, const Arguments& options) {
    Arguments all = {"--data", "corpus.txt", "--sequence", "16"};
    all.insert(all.end(), options.begin(), options.end());
    return report(on_model("evaluate", model, all)).at("loss");
  };
  EXPECT_EQ(loss_of("out", {}), loss_of("weights", {}));
  EXPECT_EQ(loss_of("out", {"--ema"}), loss_of("averages", {}));
  EXPECT_NE(loss_of("out", {"--ema"}), loss_of("out", {}));
  expect_sentence(strata(on_model("evaluate", "weights", {"--data", "corpus.txt", "--ema"})), 2,
                  {"--ema: weights is a Hugging Face folder", "name a checkpoint"});
}

/// Sets an element of a tensor of fp32 in a safetensors file.
void spoil(const std::filesystem::path& file, const std::string& tensor, float value) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  std::uint64_t size = 0;
  stream.read(reinterpret_cast<char*>(&size), sizeof(size));
  std::string header(size, ' ');
  stream.read(header.data(), static_cast<std::streamsize>(size));
  const auto begin = nlohmann::json::parse(header).at(tensor).at("data_offsets").at(0).get<std::uint64_t>();
  stream.seekp(static_cast<std::streamoff>(sizeof(size) + size + begin + 4));
  stream.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Invariant: Spoilt weights replace no checkpoint.
TEST_F(GenerateCommands, SayThatAModelsNumbersAreNone) {
  make_model_folder("model");
  const std::string tensor = "model.norm.weight";
  const Arguments evaluate = on_model("evaluate", "model", {"--data", "corpus.txt", "--sequence", "16"});
  const Arguments generate = on_model("generate", "model", {"--prompt", "the ", "--max-tokens", "5"});
  for (const float value : {NAN, INFINITY}) {
    spoil(path("model/model.safetensors"), tensor, value);
    for (const Arguments& arguments : {evaluate, generate})
      expect_sentence(strata(arguments), 1,
                      {"model/model.safetensors", "element 1 of tensor " + tensor, "is "});
    const Arguments from_it = {"model.architecture=''", "model.config={}", "model.path=model",
                               "data.tokenizer=bytes"};
    expect_sentence(strata(train("run.yaml", from_it)), 1, {"element 1 of tensor " + tensor});
  }
  // Finite weights, whose products are not.
  spoil(path("model/model.safetensors"), tensor, 3e38F);
  expect_sentence(strata(evaluate), 1, {"the loss of these texts is", "--precision fp32"});
  spoil(path("model/model.safetensors"), "model.layers.0.input_layernorm.weight", 3e38F);
  const Outcome spoken = strata(generate);
  EXPECT_EQ(spoken.status, 1);
  EXPECT_THAT(spoken.err, ::testing::HasSubstr("strata: prompt 1: the logits behind its token"));
}

TEST_F(GenerateCommands, PutAChatIntoTheModelsWords) {
  make_chat_model("model");
  write("model/generation_config.json", R"({"eos_token_id": [1, 2]})");
  write("words.txt", "user: Hi!\nbot:");
  const nlohmann::json of_chat =
      report({"generate", "model", "--chat", "--prompt", "Hi!", "--max-tokens", "5"})["continuations"][0];
  const nlohmann::json of_words =
      report({"generate", "model", "--prompt-file", "words.txt", "--max-tokens", "5"})["continuations"][0];
  EXPECT_EQ(of_chat["prompt_ids"], of_words["prompt_ids"]);
  EXPECT_EQ(of_chat["ids"], of_words["ids"]);
  write("texts.jsonl", R"({"prompt": "line 4 of", "completion": " a small text"})");
  const nlohmann::json losses = report({"evaluate", "model", "--data", "texts.jsonl"});
  EXPECT_EQ(losses["text_bytes"], 13) << "of the completion alone";
}

TEST_F(GenerateCommands, HaveAConversationByTheChatTemplate) {
  make_chat_model("model");
  write("model/generation_config.json", R"({"do_sample": false, "temperature": 0.9})");
  const auto answer_to = [&](const std::string& text) {
    write("words.txt", text);
    return report({"generate", "model", "--prompt-file", "words.txt", "--max-tokens",
                   "6"})["continuations"][0]["text"]
        .get<std::string>();
  };
  const std::string program = std::string(STRATA_PROGRAM) + " chat model --max-tokens 6 ";
  const Outcome talk = pasted("printf 'Hi!\\n\\nAnd?\\r\\n' | " + program + "--json talk.json");
  ASSERT_EQ(talk.status, 0) << talk.err;
  const std::string first = answer_to("user: Hi!\nbot:");
  const std::string second = answer_to("user: Hi!\nassistant: " + first + "\nuser: And?\nbot:");
  EXPECT_NE(first, second);
  EXPECT_EQ(talk.out, first + "\n" + second + "\n");
  const nlohmann::json messages = nlohmann::json::parse(std::ifstream(path("talk.json")))["messages"];
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[2]["content"], "And?");
  EXPECT_EQ(messages[3]["content"], second);

  const Outcome begun =
      pasted("printf 'Hi!\\n/reset\\nHi!\\n/exit\\nnever\\n' | " + program + "--system Short.");
  const std::string short_one = answer_to("system: Short.\nuser: Hi!\nbot:");
  EXPECT_EQ(begun.out, short_one + "\n" + short_one + "\n");
  const std::string drawn = program + "--temperature 5 --seed ";
  EXPECT_NE(pasted("echo Hi! | " + drawn + "1").out, pasted("echo Hi! | " + drawn + "2").out);

  expect_sentence(pasted("seq -s ' ' 3000 | " + program), 2,
                  {"the conversation has", "longest sequence has 2048", "begin anew with /reset"});
  expect_sentence(pasted(program + "--tokenizer bytes < /dev/null"), 2,
                  {"strata chat needs a model's tokenizer"});
  write("model/generation_config.json", R"({"temperature": "hot"})");
  expect_sentence(pasted(program + "< /dev/null"), 2, {"generation_config.json: temperature is \"hot\""});
  write("model/tokenizer_config.json", "{}");
  expect_sentence(pasted(program + "< /dev/null"), 2, {"model", "chat template"});
}

TEST_F(GenerateCommands, SayWhatIsWrong) {
  const auto refuse = [&](const Arguments& arguments, std::initializer_list<std::string> parts) {
    expect_sentence(strata(arguments), 2, parts);
  };
  refuse({"generate", "nowhere", "--prompt", "a"}, {"nowhere is no model", "config.json", "checkpoint"});
  refuse({"generate", "nowhere", "--prompt-file", "missing"}, {"--prompt-file: missing is not there"});
  refuse({"generate", "nowhere", "--prompt-file", "."}, {"--prompt-file: . is a folder"});
  refuse({"generate", "nowhere", "--prompt", "a", "--top-p", "2"}, {"--top-p"});
  refuse({"evaluate", "nowhere", "--data", "missing*"}, {"missing*"});
}

}  // namespace
}  // namespace strata::test
