// strata export, as a user runs it.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using Export = Workspace;

TEST_F(Export, TakesNoMemoryThatGrowsWithTheModel) {
  const auto peak_of_export = [&](const std::string& folder, Arguments overrides) {
    overrides.insert(overrides.end(), {"train.steps=1", "checkpoint.path=" + folder, "memory.device=2GiB"});
    const Outcome trained = strata(train("run.yaml", overrides));
    EXPECT_EQ(trained.status, 0) << trained.err;
    Arguments arguments = train("run.yaml", overrides);
    arguments[0] = "export";
    arguments.push_back(folder + "-model");
    const Outcome exported = strata(arguments);
    EXPECT_EQ(exported.status, 0) << exported.err;
    return exported.peak_resident_bytes;
  };
  const Bytes small = peak_of_export("small", {});
  const Bytes large =
      peak_of_export("large", {"model.config.hidden_size=512", "model.config.intermediate_size=2048"});
  const auto weights =
      static_cast<Bytes>(std::filesystem::file_size(path("large-model") / "model.safetensors"));
  ASSERT_GT(weights, 40 * MiB);
  EXPECT_LT(large, small + weights / 4);
}

TEST_F(Export, LeavesAloneWhatHasTheNameThatItWouldWriteTo) {
  std::filesystem::create_directory(path("model.tmp"));
  write("model.tmp/thesis", "precious");
  make_model_folder("model");
  EXPECT_EQ(read_file(path("model.tmp/thesis")), "precious");
  EXPECT_TRUE(is_there(path("model") / "config.json"));
}

// Invariant: A checkpoint is enough to use the model.
TEST_F(Export, HasTheTokenizerOfTrainingAlsoOnceTheModelsFolderIsGone) {
  make_model_folder("model");
  write("model/tokenizer.json", "the model's");
  write("model/generation_config.json", "{}");
  std::filesystem::create_directory(path("other"));
  write("other/tokenizer.json", "the other's");
  write("model.yaml",
        "model: {path: model}\ndata: {path: tokens.bin, tokenizer: none, tokenizer_path: other, "
        "sequence_length: 24}\ntrain: {steps: 1}\ncheckpoint: {path: kept}\n");
  std::string tokens;
  for (int i = 0; i < 200; ++i) tokens += std::string("\1\0", 2);
  write("tokens.bin", tokens);
  const Outcome trained = strata(train("model.yaml"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  std::filesystem::rename(path("model"), path("gone"));
  std::filesystem::rename(path("other"), path("gone-too"));
  const Outcome exported = strata({"export", "model.yaml", "exported"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(exported.out, ::testing::EndsWith("with its tokenizer\n"));
  EXPECT_EQ(read_file(path("exported/tokenizer.json")), "the other's");
  EXPECT_EQ(read_file(path("exported/generation_config.json")), "{}");
  EXPECT_EQ(read_file(path("exported/config.json")), read_file(path("gone/config.json")));
}

/// The content of each file, by its name.
std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename()] = read_file(entry.path());
  return files;
}

TEST_F(Export, OfACheckpointIsThatOfItsRunFile) {
  ASSERT_EQ(strata(train("run.yaml", {"train.steps=2", "checkpoint.path=out", "checkpoint.every=1"})).status,
            0);
  const auto exported = [&](const Arguments& arguments, const std::string& folder) {
    Arguments all = {"export", arguments.front(), folder};
    all.insert(all.end(), arguments.begin() + 1, arguments.end());
    const Outcome outcome = strata(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return files_in(path(folder));
  };
  const auto by_run_file = exported({"run.yaml", "--set", "checkpoint.path=out"}, "by-run-file");
  EXPECT_EQ(by_run_file.size(), 2U);
  EXPECT_EQ(exported({"out"}, "by-folder"), by_run_file);
  EXPECT_EQ(exported({"out/step-00000002"}, "by-checkpoint"), by_run_file);
  const auto older = exported({"out/step-00000001"}, "older");
  EXPECT_EQ(older.at("config.json"), by_run_file.at("config.json"));
  EXPECT_NE(older.at("model.safetensors"), by_run_file.at("model.safetensors"));
  EXPECT_NE(exported({"out", "--dtype", "bf16"}, "half").at("config.json"), by_run_file.at("config.json"));

  expect_sentence(strata({"export", "out", "new", "--merge"}), 2,
                  {"--merge: checkpoint out/", "no adapters"});
  expect_sentence(strata({"export", "out", "new", "--base", "by-folder"}), 2,
                  {"--base: ", "leave --base out"});
  expect_sentence(strata({"export", "out", "new", "--set", "train.steps=1"}), 2,
                  {"--set train.steps=1", "a folder"});
  expect_sentence(strata({"export", "by-folder", "new"}), 2, {"there is no checkpoint in by-folder"});
  expect_sentence(strata({"export", "out", "out/step-00000009"}), 2,
                  {"the folder to write", "for itself in out"});
  expect_sentence(strata({"export", "out/step-00000001", "out/step-00000009"}), 2, {"for itself in out"});
  expect_sentence(strata({"export", "out", "out/step-00000002"}), 2, {"is in the checkpoint"});
}

TEST_F(Export, IsRefusedInOneSentenceWithoutANameOrAtAMountPoint) {
  ASSERT_EQ(strata(train("run.yaml", {"train.steps=1", "checkpoint.path=out"})).status, 0);
  const auto refusal = [&](const std::string& folder) {
    return strata({"export", "run.yaml", folder, "--set", "checkpoint.path=out"});
  };
  expect_sentence(refusal(""), 2, {"no name for a new folder"});
  expect_sentence(refusal("/proc"), 2, {"/proc: is a mount point", "a new folder below it"});
  EXPECT_FALSE(is_there(path(".tmp")));
}

}  // namespace
}  // namespace strata::test
