// Paths of a run file: what stands for a part of them, and that a dump means the same paths anywhere.
#include "engine/config/path_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "engine/config/describe.h"
#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/config/value.h"
#include "tests/config/support.h"

namespace strata {
namespace {

using test::kMinimal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PathText : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STRATA_TEST_FOLDER", "/scratch/a", 1);
    ::setenv("STRATA_TEST_ODD", "/b [1]*?$x", 1);
    ::setenv("STRATA_TEST_EMPTY", "", 1);
  }
  void TearDown() override {
    for (const char* name : {"STRATA_TEST_FOLDER", "STRATA_TEST_ODD", "STRATA_TEST_EMPTY"}) ::unsetenv(name);
  }
};

std::string path_refusal(const std::string& text) {
  try {
    return "accepted as " + read_path(text, "/runs");
  } catch (const value::WrongValue& error) {
    return error.what();
  }
}

TEST_F(PathText, HasVariablesTheHomeAndTheFolderOfTheRunFile) {
  const std::string home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  EXPECT_EQ(read_path("${STRATA_TEST_FOLDER}/x", "/runs"), "/scratch/a/x");
  EXPECT_EQ(read_path("a${STRATA_TEST_FOLDER}${STRATA_TEST_FOLDER}", "/runs"), "a/scratch/a/scratch/a");
  EXPECT_EQ(read_path("${RUN_FILE_DIR}/../corpus/*.txt", "/runs"), "/runs/../corpus/*.txt");
  EXPECT_EQ(read_path("~/x${STRATA_TEST_FOLDER}", "/runs"), home + "/x/scratch/a");
  EXPECT_EQ(read_path("~", "/runs"), home);
  EXPECT_EQ(read_path("${STRATA_TEST_ODD}", "/runs"), "/b [1]*?$x") << "no variable within a variable";
}

TEST_F(PathText, HasDollarsOfItsOwn) {
  for (const std::string same : {"", "plain", "cost$", "a$5", "a$/b", "~other/x", "b~/c"})
    EXPECT_EQ(read_path(same, "/runs"), same);
  EXPECT_EQ(read_path("$$HOME/$${HOME}/$$$$", "/runs"), "$HOME/${HOME}/$$");
}

TEST_F(PathText, IsWrittenAsATextThatReadsBack) {
  for (const std::string path : {"", "a", "$", "$$", "$HOME", "${HOME}/x", "a$5$", "~x", "/b [1]*?"}) {
    EXPECT_EQ(read_path(write_path(path), "/runs"), path);
    EXPECT_EQ(read_path(write_path(path), "/runs", PathForm::pattern), path);
  }
}

TEST_F(PathText, IsRefusedWithWhatToWrite) {
  EXPECT_THAT(path_refusal("$TMPDIR/x"), HasSubstr("write ${TMPDIR} for the variable TMPDIR, or $$TMPDIR"));
  EXPECT_THAT(path_refusal("/x/$USER"), HasSubstr("write ${USER}"));
  EXPECT_THAT(path_refusal("${STRATA_TEST_UNSET}"),
              HasSubstr("the variable STRATA_TEST_UNSET of the environment is not set or empty"));
  EXPECT_THAT(path_refusal("${STRATA_TEST_EMPTY}/x"), HasSubstr("STRATA_TEST_EMPTY"));
  for (const std::string unfinished : {"${", "${}", "${HOME", "${HOME:-x}", "${5}", "a${ HOME}"})
    EXPECT_THAT(path_refusal(unfinished), HasSubstr("as in ${HOME}")) << unfinished;
}

TEST_F(PathText, OfAPatternMatchesWhatAVariableNamesAndNothingElse) {
  EXPECT_EQ(read_path("${STRATA_TEST_ODD}/*.txt", "/runs", PathForm::pattern), "/b [[]1][*][?]$x/*.txt");
  EXPECT_EQ(read_path("${RUN_FILE_DIR}/[a-z]?", "/r*", PathForm::pattern), "/r[*]/[a-z]?");
}

TEST_F(PathText, OfEveryKeyOfAPathIsExpanded) {
  int keys = 0;
  for (const Key& key : config_keys()) {
    if (!key.type.starts_with("path")) continue;
    ++keys;
    EXPECT_THAT(test::refusal(kMinimal, {key.path + "=$TMPDIR"}),
                HasSubstr(": " + key.path + ": write ${TMPDIR}"));
    EXPECT_THAT(test::refusal(kMinimal, {key.path + "='${STRATA_TEST_UNSET}'"}),
                HasSubstr(key.path + ": the variable STRATA_TEST_UNSET"));
  }
  EXPECT_EQ(keys, 13);
  EXPECT_THAT(test::refusal("data: {sources: [{path: $X}]}\n"),
              HasSubstr("run.yaml:1:8: data.sources: source 1: path: write ${X}"));
  EXPECT_EQ(parse_run_config(kMinimal + "train: {samples: {prompts: [cost of $TMPDIR]}}\n", "run.yaml")
                .train.max_skipped_steps,
            20)
      << "what is no path stays as it is";
}

TEST_F(PathText, IsWholeInADumpWhichMeansTheSameInAnotherFolder) {
  const RunConfig config = parse_run_config(
      "model: {path: '${RUN_FILE_DIR}/model'}\n"
      "data: {sources: [{path: '${RUN_FILE_DIR}/*.txt'}], validation: '$$a', cache: "
      "'${STRATA_TEST_FOLDER}'}\n"
      "memory: {host: 1GiB, nvme: {path: ['${STRATA_TEST_FOLDER}/d', '$5']}}\n"
      "checkpoint: {path: '${STRATA_TEST_ODD}'}\n",
      "/runs/x [1]/../y*/run.yaml", {"report.metrics=${RUN_FILE_DIR}/m.jsonl"});
  EXPECT_EQ(config.model.path, "/runs/y*/model");
  EXPECT_THAT(config.data.sources.at(0).path, ElementsAre("/runs/y[*]/*.txt"));
  EXPECT_THAT(config.data.validation, ElementsAre("$a"));
  EXPECT_EQ(config.data.cache, "/scratch/a");
  EXPECT_THAT(config.memory.nvme_path, ElementsAre("/scratch/a/d", "$5"));
  EXPECT_EQ(config.checkpoint.path, "/b [1]*?$x");
  EXPECT_EQ(config.report.metrics, "/runs/y*/m.jsonl");
  TearDown();
  EXPECT_EQ(parse_run_config(dump(config), "/elsewhere/dump.yaml"), config) << dump(config);
}

TEST_F(PathText, OfARunFileThatAnotherNamesStartsAtItsOwnFolder) {
  std::vector<std::string> read;
  const RunModels run = parse_run_models(
      "models: ['${RUN_FILE_DIR}/more/a.yaml', {run: '${STRATA_TEST_FOLDER}/b.yaml', name: b}]\n",
      "/runs/run.yaml", {}, 1, [&](const std::string& path) {
        read.push_back(path);
        return std::string("model: {path: '${RUN_FILE_DIR}/m'}\ndata: {path: a.txt}\n");
      });
  EXPECT_THAT(read, ElementsAre("/runs/more/a.yaml", "/scratch/a/b.yaml"));
  EXPECT_EQ(run.models.at(0).config.model.path, "/runs/more/m");
  EXPECT_EQ(run.models.at(1).config.model.path, "/scratch/a/m");
  EXPECT_THAT(test::refusal("models: [$X/a.yaml]\n"), HasSubstr("run.yaml:1:10: models: write ${X}"));
}

}  // namespace
}  // namespace strata
