// strata export, as a user runs it.
#include <gmock/gmock.h>

#include <filesystem>

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

}  // namespace
}  // namespace strata::test
