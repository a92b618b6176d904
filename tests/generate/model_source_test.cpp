// Which model a folder names.
#include "engine/run/generate/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/run/checkpoint/checkpoint.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/support.h"

namespace strata::test {
namespace {

class ModelSources : public ::testing::Test {
 protected:
  std::filesystem::path checkpoints() const { return folder_ / "out"; }
  std::filesystem::path step(int number) const {
    return checkpoints() / ("step-0000000" + std::to_string(number));
  }
  /// All of its state is `value`.
  void save(const Model& model, std::int64_t step, float value) const {
    State state(model, 0);
    state.fill(value);
    CheckpointStore(checkpoints(), 9, quick()).save(model, progress_at(step), state.access());
  }
  static ModelSource open(const std::filesystem::path& path) { return open_model(path, {}, "name it"); }
  static float first_parameter(const ModelSource& source) {
    std::vector<float> value(1);
    source.read(0, {.first = 0, .count = 1}, value);
    return value[0];
  }
  static void expect_refusal(const std::filesystem::path& path, const std::string& part) {
    try {
      open(path);
      FAIL() << "expected: " << part;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
  }

  TemporaryFolder folder_;
};

TEST_F(ModelSources, AreCheckpointsAndTheNewestOfThem) {
  const Model model = tiny_llama();
  save(model, 1, 1);
  save(model, 2, 2);
  const ModelSource newest = open(checkpoints());
  EXPECT_EQ(first_parameter(newest), 2);
  EXPECT_EQ(newest.folder, step(2));
  EXPECT_TRUE(newest.is_checkpoint);
  EXPECT_THAT(newest.name, ::testing::EndsWith("step-00000002 (step 2)"));
  EXPECT_EQ(newest.model->architecture, model.architecture);
  EXPECT_EQ(first_parameter(open(step(1))), 1);
}

TEST_F(ModelSources, OfDamagedCheckpointsAreTheNextOlderOneAndSaySo) {
  const Model model = tiny_llama();
  save(model, 1, 1);
  save(model, 2, 2);
  flip_bit(step(2) / "master.safetensors", 200);
  const ModelSource source = open(checkpoints());
  EXPECT_EQ(first_parameter(source), 1);
  EXPECT_THAT(source.warnings, ::testing::ElementsAre(::testing::HasSubstr("step-00000002")));
  expect_refusal(step(2), "step-00000002");
  flip_bit(step(1) / "master.safetensors", 200);
  expect_refusal(checkpoints(), "no checkpoint is whole: ");
}

TEST_F(ModelSources, AreFoldersOfHuggingFace) {
  const Model model = tiny_gpt2();
  State state(model, 0);
  state.fill(3);
  HfExport options;
  options.config = to_hf_config(model.architecture);
  save_hf_folder(folder_ / "model", model, read_from(state), options, quick());
  const ModelSource source = open(folder_ / "model");
  EXPECT_EQ(first_parameter(source), 3);
  EXPECT_FALSE(source.is_checkpoint);
  EXPECT_EQ(source.name, (folder_ / "model").string());
}

TEST_F(ModelSources, AreNothingElse) {
  expect_refusal(folder_ / "nowhere", "is no model: expected a Hugging Face folder with config.json");
  expect_refusal(folder_.path(), "is no model");
}

}  // namespace
}  // namespace strata::test
