// Files of models and checkpoints that are damaged: one sentence of ours, and what is whole is used.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

using DamagedFiles = Workspace;

TEST_F(DamagedFiles, AManifestWithoutEndIsLeftForTheCheckpointBefore) {
  ASSERT_EQ(
      strata(train("run.yaml", {"checkpoint.path=out", "checkpoint.every=3", "checkpoint.keep=2"})).status,
      0);
  fs::resize_file(path("out/step-00000006/manifest.json"), std::uintmax_t{1} << 40);
  const Outcome outcome =
      strata(train("run.yaml", {"checkpoint.path=out", "checkpoint.every=3", "checkpoint.keep=2"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("1099511627776 bytes are more than a manifest has"));
  EXPECT_THAT(outcome.err, HasSubstr("step-00000003"));
}

TEST_F(DamagedFiles, ARecordOfARunThatIsNoneIsRefusedInASentence) {
  write("sweep.yaml", run_file() + "checkpoint: {path: out}\nsweep: {train.seed: [1, 2]}\n");
  const Arguments arguments = train("sweep.yaml", {"train.steps=1"});
  fs::create_directory(path("out"));
  for (const char* record :
       {"{}", "null", R"({"format": "strata run", "version": 1, "models": [], "rungs": 1})"}) {
    write("out/run.json", record);
    const Outcome outcome = strata(arguments);
    expect_sentence(outcome, 2, {"out/run.json: is no record of a run", "--fresh"});
    EXPECT_THAT(outcome.err, Not(HasSubstr("json.exception")));
  }
  fs::resize_file(path("out/run.json"), std::uintmax_t{1} << 40);
  expect_sentence(strata(arguments), 2, {"out/run.json: 1099511627776 bytes are more than"});
}

}  // namespace
}  // namespace strata::test
