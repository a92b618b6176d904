// Adapters as a user takes them from a run: exported, and on the model that they belong to.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

/// A folder `model`, and a run of adapters on it that has saved into lora/.
class AdapterCommands : public Workspace {
 protected:
  void SetUp() override {
    make_model_folder("model");
    write("lora.yaml",
          "model: {path: model}\nadapter: {type: dora, rank: 4, targets: [q_proj, down_proj]}\n"
          "data: {path: corpus.txt, tokenizer: bytes, sequence_length: 24}\n"
          "train: {steps: 4, batch: 4}\noptimizer: {lr: 3e-2}\ncheckpoint: {path: lora}\n");
    const Outcome trained = strata(train("lora.yaml"));
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  void must(const Arguments& arguments) const {
    const Outcome outcome = strata(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  /// What a command finds of a model, in the default precision.
  nlohmann::json said(const Arguments& model) const {
    return report(
               with({"generate"}, model, {"--tokenizer", "bytes", "--prompt", "line ", "--max-tokens", "16"}))
        .at("continuations");
  }
  nlohmann::json loss(const Arguments& model) const {
    return report(with({"evaluate"}, model,
                       {"--tokenizer", "bytes", "--data", "corpus.txt", "--sequence", "24"}))
        .at("loss");
  }
  static Arguments with(Arguments first, const Arguments& second, const Arguments& third) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  }
  std::string content(const std::string& file) const { return read_file(path(file)); }
};

TEST_F(AdapterCommands, ExportTheSameByRunFileAndByCheckpoint) {
  must({"export", "lora.yaml", "a"});
  must({"export", "lora", "b"});
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    EXPECT_EQ(content(std::string("a/") + file), content(std::string("b/") + file)) << file;
  EXPECT_EQ(nlohmann::json::parse(content("b/adapter_config.json"))["base_model_name_or_path"],
            std::filesystem::canonical(path("model")).string());
  must({"export", "lora.yaml", "merged-a", "--merge", "--dtype", "bf16"});
  must({"export", "lora/step-00000004", "merged-b", "--merge", "--dtype", "bf16"});
  for (const char* file : {"config.json", "model.safetensors"})
    EXPECT_EQ(content(std::string("merged-a/") + file), content(std::string("merged-b/") + file)) << file;

  std::filesystem::rename(path("model"), path("moved"));
  must({"export", "lora", "without"});
  EXPECT_EQ(content("without/adapter_config.json"), content("a/adapter_config.json"));
  for (const char* source : {"lora", "lora.yaml"})
    expect_sentence(strata({"export", source, "new", "--merge"}), 2, {"is not there", "--base FOLDER"});
  must({"export", "lora", "merged-c", "--merge", "--dtype", "bf16", "--base", "moved"});
  EXPECT_EQ(content("merged-c/model.safetensors"), content("merged-a/model.safetensors"));
  expect_sentence(strata({"export", "lora", "new", "--merge", "--base", "merged-a"}), 2,
                  {"merged-a has other weights"});
}

// Invariant of generation (AdapterCommands.*): Adapters on a model are the merged model. The numbers are
// those of the merged export, bit for bit.
TEST_F(AdapterCommands, OnAModelSayWhatTheMergedModelSays) {
  must({"export", "lora", "adapter"});
  must({"export", "lora", "merged", "--merge"});
  const nlohmann::json merged = said({"merged"}), merged_loss = loss({"merged"});
  EXPECT_NE(merged_loss, loss({"model"}));
  for (const Arguments& model : std::vector<Arguments>{
           {"lora"}, {"adapter"}, {"model", "--adapter", "adapter"}, {"model", "--adapter", "lora"}}) {
    EXPECT_EQ(said(model), merged) << model.back();
    EXPECT_EQ(loss(model), merged_loss) << model.back();
  }
}

TEST_F(AdapterCommands, SayHowTheirModelIsNamed) {
  must({"export", "lora", "adapter"});
  const Arguments prompt = {"--tokenizer", "bytes", "--prompt", "a", "--max-tokens", "2"};
  const auto refused = [&](const Arguments& model) { return strata(with({"generate"}, model, prompt)); };
  std::filesystem::rename(path("model"), path("moved"));
  for (const std::string& model : {std::string("adapter"), std::string("lora")}) {
    const Outcome outcome = refused({model});
    expect_sentence(outcome, 2,
                    {"has adapters alone", "is not there", "/model; name the folder where it is: "});
    std::string line = behind("where it is: ", outcome.err);
    EXPECT_THAT(line, ::testing::EndsWith("generate FOLDER --adapter " + model));
    line.replace(line.find("FOLDER"), 6, "moved");
    EXPECT_EQ(pasted(line + " --tokenizer bytes --prompt a --max-tokens 2").status, 0);
  }
  nlohmann::json config = nlohmann::json::parse(content("adapter/adapter_config.json"));
  const auto name_base = [&](const nlohmann::json& name) {
    config["base_model_name_or_path"] = name;
    write("adapter/adapter_config.json", config.dump());
  };
  name_base("../moved");
  EXPECT_EQ(refused({"adapter"}).status, 0) << "from the adapter's folder on";
  name_base("Qwen/Qwen3-0.6B");
  expect_sentence(refused({"adapter"}), 2,
                  {"hf download Qwen/Qwen3-0.6B --local-dir models/Qwen3-0.6B, then: ",
                   "generate models/Qwen3-0.6B --adapter adapter"});
  name_base(nullptr);
  expect_sentence(refused({"adapter"}), 2,
                  {"does not say to which model", "generate FOLDER --adapter adapter"});
  expect_sentence(refused({"moved", "--adapter", "nowhere"}), 2, {"--adapter: nowhere is not there"});
  expect_sentence(refused({"moved", "--adapter", "out"}), 2, {"out/step-00000001 has a whole model"});
  expect_sentence(refused({"out", "--adapter", "lora"}), 2, {"out is no Hugging Face folder"});
  ASSERT_EQ(
      strata(train("run.yaml", {"model.config.hidden_size=16", "train.steps=1", "checkpoint.path=thin"}))
          .status,
      0);
  expect_sentence(refused({"thin", "--adapter", "adapter"}), 2,
                  {"adapter has no adapters of thin: ", "shape"});
}

}  // namespace
}  // namespace strata::test
