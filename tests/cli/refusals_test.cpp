// What is wrong with a run gets one sentence that says what and where, and exit status 2, before any step
// runs.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>

#include "base/file.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

class Refusal : public Workspace {
 protected:
  void write_ids(const std::string& name, const std::vector<std::uint16_t>& ids) const {
    write(name, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])});
  }
};

// Invariant of failures (Refusal.*): Bad input gets a sentence. The sentence names the place, what was
// expected, and what to do.
TEST_F(Refusal, OfAnUnknownKeyNamesItsPlaceAndTheNearestKey) {
  write("wrong.yaml", run_file() + "checkpoint:\n  pth: out\n");
  const Outcome outcome = strata(train("wrong.yaml"));
  expect_sentence(outcome, 2, {"wrong.yaml:10:3", "'checkpoint.pth'", "did you mean 'checkpoint.path'?"});
}

TEST_F(Refusal, OfAnUnknownModelKeyNamesTheNearestOne) {
  const Outcome outcome = strata(train("run.yaml", {"model.config.hiden_size=32"}));
  expect_sentence(outcome, 2, {"hiden_size", "hidden_size"});
}

TEST_F(Refusal, OfAWrongTypeNamesItsPlaceAndWhatWasExpected) {
  write("wrong.yaml", run_file() + "checkpoint: {path: out, every: often}\n");
  expect_sentence(strata(train("wrong.yaml")), 2,
                  {"wrong.yaml:9:25", "checkpoint.every", "expected an integer", "'often'"});
}

TEST_F(Refusal, OfAWrongOverrideNamesTheOverride) {
  expect_sentence(strata(train("run.yaml", {"train.steps=many"})), 2,
                  {"--set train.steps=many", "an integer"});
}

TEST_F(Refusal, NamesTheProgramAsItWasCalled) {
  const std::string folder = std::filesystem::path(STRATA_PROGRAM).parent_path();
  EXPECT_THAT(pasted("PATH='" + folder + "' strata train").err, HasSubstr("; strata --help and strata COMM"));
  std::filesystem::create_symlink(STRATA_PROGRAM, path("it's"));
  EXPECT_THAT(pasted("\"./it's\" train").err, HasSubstr("; './it'\\''s' --help and"));
}

TEST_F(Refusal, OfTasksThatMpiDoesNotJoinNamesTheirLauncher) {
  const auto started_with = [&](Arguments words) {
    words.insert(words.end(), {STRATA_PROGRAM, "train", "run.yaml", "--set", "train.steps=1"});
    return Process("/usr/bin/env", words, {.folder = path(".")}).wait();
  };
  expect_sentence(started_with({"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_NTASKS=2",
                                "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "SLURM_LOCALID=1"}),
                  2, {"Slurm's srun started this process as one of 2 tasks", "srun --mpi=pmix"});
  expect_sentence(started_with({"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=localhost"}), 2,
                  {"torchrun started this process as one of 2 tasks (WORLD_SIZE=2)", "mpirun"});
  // The script that sbatch runs once for all.
  EXPECT_EQ(started_with({"SLURM_JOB_ID=7", "SLURM_NTASKS=2", "SLURM_PROCID=0"}).status, 0);
}

TEST_F(Refusal, OfAMissingRunFileNamesIt) {
  expect_sentence(strata(train("nowhere.yaml")), 2, {"nowhere.yaml", "No such file"});
}

TEST_F(Refusal, OfAWrongCommandLineSaysWhatIsMissing) {
  expect_sentence(strata({"train"}), 2, {"run_file is required"});
  expect_sentence(strata({"frobnicate"}), 2, {"'frobnicate' is no command: the commands are train, "});
  expect_sentence(strata({"train", "run.yaml", "--frsh"}), 2, {"--frsh"});
}

TEST_F(Refusal, OfAPromptSaysWhichAndWhy) {
  const auto refusal = [&](const Arguments& overrides) { return strata(train("run.yaml", overrides)); };
  expect_sentence(refusal({"train.samples.prompts=[a, '']"}), 2,
                  {"train.samples.prompts: prompt 2 has no tokens"});
  expect_sentence(refusal({"train.samples={prompts: [a, abcdef], max_length: 6}"}), 2,
                  {"prompt 2 has 6 tokens", "ends at 6", "train.samples.max_length"});
  expect_sentence(refusal({"model.config.vocab_size=128", "train.samples.prompts=ü"}), 2,
                  {"prompt 1 has the token 195", "vocabulary ends at"});
  expect_sentence(refusal({"train.samples={prompts: a, chat: true}"}), 2,
                  {"train.samples.chat needs a model's tokenizer"});
  expect_sentence(refusal({"train.samples.every=3"}), 2,
                  {"train.samples.every", "give train.samples.prompts"});
  write_ids("ids.bin", std::vector<std::uint16_t>(2000, 1));
  expect_sentence(refusal({"data={path: ids.bin, tokenizer: none}", "train.samples.prompts=a"}), 2,
                  {"train.samples.prompts", "data.tokenizer_path"});
  expect_sentence(
      refusal({"data={path: ids.bin, tokenizer: none, tokenizer_path: nowhere}", "train.samples.prompts=a"}),
      2, {"train.samples.prompts: ", "nowhere is not there", "tokenizer.json"});
}

TEST_F(Refusal, OfAMissingModelNamesTheFolderOrTheFile) {
  const std::string model = "model: {path: my-model}\ndata: {path: corpus.txt, sequence_length: 24}\n";
  write("hf.yaml", model);
  const std::string here = std::filesystem::canonical(path("."));
  expect_sentence(strata(train("hf.yaml")), 2,
                  {"my-model: no such folder", "looked for in " + here, "${RUN_FILE_DIR}"});
  const std::string download = "hf download Qwen/Qwen3-0.6B --local-dir models/qwen3-0.6b";
  expect_sentence(strata(train("hf.yaml", {"model.path=Qwen/Qwen3-0.6B"})), 2,
                  {"Qwen/Qwen3-0.6B: no such folder", download, "set  model.path: models/qwen3-0.6b"});
  expect_sentence(strata({"generate", "Qwen/Qwen3-0.6B", "--prompt", "a"}), 2,
                  {"Qwen/Qwen3-0.6B is no model", download, "name models/qwen3-0.6b"});
  write("model.gguf", "GGUF");
  expect_sentence(strata(train("hf.yaml", {"model.path=model.gguf"})), 2,
                  {"model.gguf: this is no folder", "GGUF is not read"});
  expect_sentence(strata({"generate", "model.gguf", "--prompt", "a"}), 2,
                  {"model.gguf is no model", "GGUF is not read"});
  expect_sentence(strata(train("run.yaml", {"data.path=nowhere/*.txt"})), 2,
                  {"data.path: no file matches nowhere/*.txt; looked for in " + here});
  std::filesystem::create_directory(path("my-model"));
  expect_sentence(strata(train("hf.yaml")), 2, {"my-model/config.json", "no such file"});
  std::filesystem::remove_all(path("my-model"));
  make_model_folder("my-model");
  expect_sentence(strata(train("hf.yaml", {"adapter={type: lora, path: owner/adapters}"})), 2,
                  {"owner/adapters/adapter_model.safetensors: no such file", "hf download owner/adapters",
                   "set  adapter.path: models/adapters"});
  std::filesystem::remove(path("my-model") / "model.safetensors");
  expect_sentence(strata(train("hf.yaml")), 2, {"my-model", "model.safetensors"});
}

TEST_F(Refusal, OfATruncatedModelSaysHowMuchIsMissing) {
  make_model_folder("my-model");
  write("hf.yaml",
        "model: {path: my-model}\ndata: {path: corpus.txt, sequence_length: 24}\ntrain: {steps: 1}\n"
        "checkpoint: none\n");
  EXPECT_EQ(strata(train("hf.yaml")).status, 0);
  const std::filesystem::path weights = path("my-model") / "model.safetensors";
  const auto size = std::filesystem::file_size(weights);
  std::filesystem::resize_file(weights, size - 1000);
  expect_sentence(
      strata(train("hf.yaml")), 2,
      {"my-model/model.safetensors", "truncated", std::to_string(size), std::to_string(size - 1000)});
}

TEST_F(Refusal, OfATokenBeyondTheVocabularyNamesFileTokenAndLimit) {
  std::vector<std::uint16_t> ids(2000, 7);
  ids[1234] = 256;
  write_ids("tokens.bin", ids);
  const Outcome outcome = strata(train("run.yaml", {"data.path=tokens.bin", "data.tokenizer=none"}));
  expect_sentence(outcome, 2, {"tokens.bin", "token 1234", "256", "vocabulary"});
  ids[1234] = 255;
  write_ids("tokens.bin", ids);
  EXPECT_EQ(strata(train("run.yaml", {"data.path=tokens.bin", "data.tokenizer=none"})).status, 0);
}

TEST_F(Refusal, OfBytesForAModelWithATokenizerNamesIt) {
  std::string gpt2 = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 300})";
  std::filesystem::create_directory(path("gpt2"));
  write("gpt2/config.json", gpt2);
  write("gpt2/tokenizer.json", "{}");
  write("hf.yaml", "model: {path: gpt2}\ndata: {path: corpus.txt, sequence_length: 24}\n");
  expect_sentence(strata(train("hf.yaml")), 2,
                  {"data.tokenizer: bytes", "300", "gpt2/tokenizer.json", "none"});
}

TEST_F(Refusal, OfDataThatIsNotThereNamesThePattern) {
  expect_sentence(strata(train("run.yaml", {"data.path='texts/*.txt'"})), 2, {"data.path", "texts/*.txt"});
  write("empty.txt", "");
  expect_sentence(strata(train("run.yaml", {"data.path=empty.txt"})), 2, {"data.path", "empty"});
  write("short.txt", "a few words");
  expect_sentence(strata(train("run.yaml", {"data.path=short.txt"})), 2, {"data.path", "12 tokens"});
}

TEST_F(Refusal, OfADeviceBudgetNamesTheSmallestThatWorksAndItDoes) {
  const Outcome outcome = strata(train("run.yaml", {"memory.device=1KiB"}));
  expect_sentence(outcome, 2,
                  {"memory.device: 1.00 KiB is too small", "the smallest that works",
                   "strata explain run.yaml --set 'memory.device=1KiB' says what else would help"});
  const std::string smallest = bytes_in_sentence(outcome);
  const nlohmann::json done = report(train("run.yaml", {"memory.device=" + smallest}));
  EXPECT_EQ(done["memory"]["device"]["measured_peak_bytes"], std::stoll(smallest));
  const std::string less = std::to_string(std::stoll(smallest) - 1);
  expect_sentence(strata(train("run.yaml", {"memory.device=" + less})), 2, {"(" + smallest + " bytes)"});
}

TEST_F(Refusal, OfAHostBudgetNamesOneThatWorksAndItDoes) {
  const Outcome outcome = strata(train("run.yaml", {"memory.host=1KiB"}));
  expect_sentence(outcome, 2, {"memory.host: 1.00 KiB is too small"});
  const std::string needed = bytes_in_sentence(outcome);
  EXPECT_EQ(strata(train("run.yaml", {"memory.host=" + needed})).status, 0);
  const std::string less = std::to_string(std::stoll(needed) - 1);
  expect_sentence(strata(train("run.yaml", {"memory.host=" + less})), 2, {"(" + needed + " bytes)"});
}

TEST_F(Refusal, OfMoreInstructionsThanAProgramHasNamesTheKeyToChange) {
  const Outcome outcome = strata({"plan", "run.yaml", "--set", "train.batch=4194304"});
  expect_sentence(outcome, 2, {"train.batch: 2097152 microbatches", "raise train.microbatch"});
  EXPECT_LT(outcome.peak_resident_bytes, 512 * MiB);
}

TEST_F(Refusal, OfSequencesLongerThanAnyNamesTheKey) {
  expect_sentence(strata({"plan", "run.yaml", "--set", "data.sequence_length=4611686018427387904"}), 2,
                  {"data.sequence_length: must be at most"});
}

TEST_F(Refusal, OfACheckpointFolderThatCannotBeWrittenNamesIt) {
  // Below a regular file not even root can make a folder.
  expect_sentence(strata(train("run.yaml", {"checkpoint.path=corpus.txt/out"})), 2,
                  {"checkpoint.path corpus.txt/out is not writable"});
}

TEST_F(Refusal, OfReportFilesThatCannotBeWrittenComesBeforeTheRun) {
  expect_sentence(strata(train("run.yaml", {"report.metrics=corpus.txt/metrics.jsonl"})), 2,
                  {"report.metrics: cannot create the folder corpus.txt: Not a directory"});
  expect_sentence(strata(train("run.yaml", {"report.tensorboard=corpus.txt/curves"})), 2,
                  {"report.tensorboard", "corpus.txt/curves"});
  expect_sentence(strata({"train", "run.yaml", "--json", "corpus.txt/report.json"}), 2,
                  {"--json", "corpus.txt/report.json"});
  expect_sentence(strata({"doctor", "--profile", "corpus.txt/machine.json"}), 2,
                  {"--profile", "corpus.txt/machine.json"});
}

TEST_F(Refusal, OfReportsInPlaceOfWhatTheCommandReadsLeavesThatAsItIs) {
  make_model_folder("mg");
  write("d.jsonl", R"({"text": "a few words"})");
  write("prompt.txt", "words");
  std::filesystem::create_hard_link(path("d.jsonl"), path("other-name"));
  const auto refuse = [&](const Arguments& arguments, const std::string& output, const std::string& option) {
    const std::string before = read_file(path(output));
    expect_sentence(strata(arguments), 2, {output + " is ", option, "give another file"});
    EXPECT_EQ(read_file(path(output)), before);
  };
  const auto evaluate = [&](const std::string& output, const std::string& option) {
    refuse({"evaluate", "mg", "--tokenizer", "bytes", "--data", "*.jsonl", "--json", output}, output, option);
  };
  evaluate("d.jsonl", "--data");
  evaluate("other-name", "--data");
  evaluate("mg/config.json", "the model");
  for (const char* output : {"prompt.txt", "mg/model.safetensors"})
    refuse({"generate", "mg", "--tokenizer", "bytes", "--prompt-file", "prompt.txt", "--json", output},
           output, "");
  refuse(train("run.yaml", {"report.metrics=corpus.txt"}), "corpus.txt", "report.metrics");
  refuse(train("run.yaml", {"report.metrics=run.yaml"}), "run.yaml", "the run file");
  for (const char* command : {"train", "plan", "explain"})
    refuse({command, "run.yaml", "--json", "corpus.txt"}, "corpus.txt", "data.path");
  const Outcome again = strata({"evaluate", "mg", "--tokenizer", "bytes", "--data", "d.jsonl", "--format",
                                "text", "--json", "prompt.txt"});
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(Refusal, OfAnotherModelsCheckpointNamesItAndTheDifference) {
  ASSERT_EQ(strata(train("run.yaml", {"checkpoint.path=out"})).status, 0);
  expect_sentence(strata(train("run.yaml", {"checkpoint.path=out", "model.config.hidden_size=64"})), 2,
                  {"out/step-00000006 holds another model", "hidden 32 vs 64", "--fresh"});
}

TEST_F(Refusal, OfFreezingNamesThePatternAndWhatTensorsAreCalled) {
  expect_sentence(strata(train("run.yaml", {"train.freeze=['*.mlp.*', 'model.layers.7.*']"})), 2,
                  {"train.freeze: 'model.layers.7.*' matches no tensor", "model.embed_tokens.weight"});
  expect_sentence(strata({"plan", "run.yaml", "--set", "train.freeze='*'"}), 2,
                  {"train.freeze", "there is nothing to train"});
  expect_sentence(strata(train("run.yaml", {"train.freeze=['\xc3\xa9*']"})), 2,
                  {"train.freeze", "plain ASCII"});
  expect_sentence(strata(train("run.yaml", {"train.freeze={a: b}"})), 2, {"train.freeze", "a list of texts"});
}

TEST_F(Refusal, OfAGroupOfTensorsNamesWhatIsWrongWithIt) {
  const auto groups = [](const std::string& list) { return train("run.yaml", {"optimizer.groups=" + list}); };
  expect_sentence(strata(groups("[{tensors: 'model.layers.7.*', lr_factor: 2}]")), 2,
                  {"optimizer.groups: 'model.layers.7.*' matches no tensor", "model.embed_tokens.weight"});
  expect_sentence(strata(groups("[{tensors: '*.bias', lr: 2}]")), 2,
                  {"optimizer.groups: group 1: lr: is no key of a group", "lr_factor"});
  Arguments frozen = groups("[{tensors: 'model.norm.*', weight_decay: 0.1}]");
  frozen.insert(frozen.end(), {"--set", "train.freeze=model.norm.*"});
  expect_sentence(strata(frozen), 2,
                  {"optimizer.groups: 'model.norm.*' matches only tensors that are not trained"});
}

TEST_F(Refusal, OfACheckpointOfAnotherFreezeNamesATensorAndWhatWasFrozen) {
  ASSERT_EQ(
      strata(train("run.yaml", {"checkpoint.path=out", "train.freeze='*.mlp.*'", "train.steps=1"})).status,
      0);
  expect_sentence(strata(train("run.yaml", {"checkpoint.path=out"})), 2,
                  {"out/step-00000001 is of a run with another train.freeze", "mlp", "was frozen",
                   "[*.mlp.*]", "--fresh"});
  EXPECT_EQ(strata(train("run.yaml", {"checkpoint.path=out", "train.freeze='*.mlp.*'"})).status, 0);
  EXPECT_EQ(strata({"export", "run.yaml", "exported", "--set", "checkpoint.path=out", "--set",
                    "train.freeze='*.mlp.*'"})
                .status,
            0);
  write("exported.yaml",
        "model: {path: exported}\ndata: {path: corpus.txt, sequence_length: 24}\ntrain: {steps: 1, freeze: "
        "['*.mlp.*']}\n");
  EXPECT_EQ(strata(train("exported.yaml")).status, 0);
}

/// What could not be done is making the folder; that its file is not there follows from it.
TEST_F(Refusal, OfAReportWhoseFolderCannotBeMadeSaysWhy) {
  const std::string why = "cannot create the folder corpus.txt/sub: Not a directory";
  for (const std::string report :
       {"report.metrics=corpus.txt/sub/m", "report.trace={path: corpus.txt/sub/t, steps: [1]}",
        "report.tensorboard=corpus.txt/sub"})
    expect_sentence(strata(train("run.yaml", {report})), 2, {"strata: report.", why});
}

TEST_F(Refusal, OfSequencesLongerThanLearnedPositionsNamesBoth) {
  write("gpt2.yaml",
        "model: {architecture: gpt2, config: {n_layer: 1, n_embd: 16, n_head: 2, n_positions: 16, "
        "vocab_size: 256}}\n"
        "data: {path: corpus.txt, sequence_length: 24}\n");
  expect_sentence(strata(train("gpt2.yaml")), 2, {"data.sequence_length: 24", "16 positions"});
  EXPECT_EQ(strata(train("gpt2.yaml", {"data.sequence_length=16", "train.steps=1"})).status, 0);
}

}  // namespace
}  // namespace strata::test
