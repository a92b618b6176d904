// What a person hears about a path that is not there.
#include "base/missing_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MissingPath, SaysWhereARelativePathWasLookedFor) {
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(advice_on_missing("/a/b", "data.path"), "");
  EXPECT_EQ(
      advice_on_missing("a/*.txt", "data.path"),
      "; looked for in " + here + ", the current directory (${RUN_FILE_DIR}/… begins beside the run file)");
  EXPECT_EQ(advice_on_missing("a", ""), "; looked for in " + here + ", the current directory");
}

TEST(MissingPath, OfAModelOfTheHubIsAnsweredWithTheDownload) {
  for (const char* path : {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B/", "https://huggingface.co/Qwen/Qwen3-0.6B",
                           "https://huggingface.co/Qwen/Qwen3-0.6B/tree/main", "hf://Qwen/Qwen3-0.6B"}) {
    EXPECT_EQ(advice_on_missing_model(path, "model.path"),
              "; if it is a model of the Hugging Face hub, run  hf download Qwen/Qwen3-0.6B --local-dir "
              "models/qwen3-0.6b  and set  model.path: models/qwen3-0.6b")
        << path;
  }
  EXPECT_THAT(advice_on_missing_model("Qwen/Qwen3-0.6B", ""), HasSubstr("  and name models/qwen3-0.6b"));
}

TEST(MissingPath, OfAFolderOfOnesOwnIsNoModelOfTheHub) {
  const test::TemporaryFolder folder;
  const std::string absolute = folder / "a";
  for (const std::string& path :
       std::vector<std::string>{"out/tiny-qwen3", "models/qwen3", "/Qwen/Qwen3", "./Qwen/Qwen3", "../a/b",
                                "a/b/c", "gpt2", "Qwen/.hidden", "Qwen/a b", absolute}) {
    EXPECT_EQ(advice_on_missing_model(path, "model.path"), advice_on_missing(path, "model.path")) << path;
  }
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(folder / "mine");
  std::filesystem::current_path(folder.path());
  EXPECT_THAT(advice_on_missing_model("mine/model", "model.path"), Not(HasSubstr("hf download")));
  std::filesystem::current_path(before);
}

TEST(MissingPath, OfAFileOfWeightsIsAnsweredByItsForm) {
  EXPECT_THAT(advice_on_missing_model("a/qwen.Q4.gguf", "model.path"), HasSubstr("GGUF is not read"));
  EXPECT_THAT(advice_on_missing_model("/m/pytorch_model.bin", "model.path"), HasSubstr("save_pretrained"));
  EXPECT_THAT(advice_on_missing_model("/m/model.safetensors", ""),
              HasSubstr("name the folder that has this file"));
}

}  // namespace
}  // namespace strata
