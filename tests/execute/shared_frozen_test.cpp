// Models that begin with the same frozen tensors from one folder: they hold these once, wherever they live,
// and each has the bits of its run alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/execute/several_models.h"

namespace strata {
namespace {

using test::expect_solo_bits;
using test::JointOutcome;
using test::losses_of;
using test::model_of;
using test::run_together;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::HasSubstr;

/// Writes the run's model, as `seed` begins it, as a folder.
void make_folder(const RunConfig& config, const std::string& path, std::uint64_t seed) {
  RunConfig trained = config;
  trained.train.freeze.clear();
  const Model model = model_of(trained);
  const auto values = [&](std::size_t unit, FlatRange range, std::span<float> out) {
    std::vector<float> flat(static_cast<std::size_t>(model.units[unit].elements));
    for (const TensorSpec& tensor : model.units[unit].tensors) {
      initialize_tensor(model.architecture, tensor, seed, 0,
                        std::span(flat).subspan(static_cast<std::size_t>(tensor.offset),
                                                static_cast<std::size_t>(tensor.elements)));
    }
    std::copy_n(flat.begin() + range.first, range.count, out.begin());
  };
  std::filesystem::remove_all(path);
  save_hf_folder(path, model, values, {.config = to_hf_config(model.architecture), .dtype = DType::fp32});
}

/// Three runs that freeze the layers, but for a norm that one of them trains, and one run that trains all.
std::vector<RunConfig> runs(const TemporaryFolder& folder) {
  std::vector<RunConfig> configs(4, tiny_run(folder.path()));
  for (RunConfig& config : configs) {
    config.model.path = folder.path() / "model";
    config.train.freeze = {"model.layers.*"};
  }
  configs[1].optimizer.learning_rate = 3e-3;
  configs[1].train.steps = 2;
  configs[2].train.freeze = {"model.layers.0.*", "model.layers.1.mlp.*"};
  configs[2].train.steps = 6;
  configs[3].train.freeze.clear();
  make_folder(configs[0], configs[0].model.path, 3);
  return configs;
}

/// Bytes of frozen values in all models' places, and in the buffers that these are.
std::pair<Bytes, Bytes> frozen_bytes(const Program& program) {
  Bytes named = 0, held = 0;
  std::vector<bool> is_counted(program.buffers.size(), false);
  for (const StateEntry& place : program.state) {
    if (place.part != StateKey::frozen) continue;
    named += program.buffer(place.buffer).bytes;
    if (!is_counted[static_cast<std::size_t>(place.buffer)]) held += program.buffer(place.buffer).bytes;
    is_counted[static_cast<std::size_t>(place.buffer)] = true;
  }
  return {named, held};
}

struct FrozenPlace {
  std::string tier;
  ParameterFormat frozen_as = ParameterFormat::precision;
};

class SharedFrozen : public ::testing::TestWithParam<FrozenPlace> {};
INSTANTIATE_TEST_SUITE_P(, SharedFrozen,
                         ::testing::Values(FrozenPlace{"device"}, FrozenPlace{"host"}, FrozenPlace{"nvme"},
                                           FrozenPlace{"device", ParameterFormat::fp8},
                                           FrozenPlace{"host", ParameterFormat::fp8},
                                           FrozenPlace{"host", ParameterFormat::nf4}),
                         [](const auto& info) {
                           return info.param.tier + "_" + std::string(word_of(info.param.frozen_as));
                         });

MemorySection memory_of(const std::string& tier, const TemporaryFolder& folder) {
  MemorySection memory = tiny_run(folder.path()).memory;
  if (tier == "device") return memory;
  memory.device = 192 * KiB;
  memory.host = kUnlimited;
  if (tier == "host") return memory;
  memory.host = 4 * MiB;
  memory.nvme_path = {folder.path().string()};
  memory.nvme_size = 64 * MiB;
  memory.parameters = TierChoice::nvme;
  return memory;
}

TEST_P(SharedFrozen, IsHeldOnceAndModelsHaveTheBitsOfTheirRunsAlone) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = runs(folder);
  for (RunConfig& config : configs) {
    config.memory = memory_of(GetParam().tier, folder);
    config.memory.frozen_as = GetParam().frozen_as;
    if (GetParam().frozen_as != ParameterFormat::fp8) continue;
    config.train.precision = kFp8;
    config.memory.trained_as = ParameterFormat::fp8;
  }
  const JointOutcome outcome = run_together(configs);
  const Program& program = outcome.plans.front().training().program;
  const auto [named, held] = frozen_bytes(program);
  // The first two have the same three layers; the third's first is theirs too.
  const Program& first = outcome.plans.front().models[0]->training.program;
  const Program& third = outcome.plans.front().models[2]->training.program;
  const Bytes layers = frozen_bytes(first).second;
  EXPECT_EQ(named, 2 * layers + frozen_bytes(third).second);
  EXPECT_EQ(held, named - layers - layers / 3);
  for (const StateEntry& place : program.state) {
    if (place.part == StateKey::frozen) {
      EXPECT_EQ(name_of(program.buffer(place.buffer).tier), GetParam().tier);
    }
  }
  expect_solo_bits(configs, outcome);
}

TEST(SharedFrozenValues, AreThoseOfOneFolderCutAlike) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = runs(folder);
  const auto is_shared = [&] {
    const JointOutcome outcome = run_together({configs[0], configs[1]});
    const auto [named, held] = frozen_bytes(outcome.plans.front().training().program);
    EXPECT_GT(named, 0);
    return held < named;
  };
  configs[1].model.path = folder.path() / "." / "model";
  EXPECT_TRUE(is_shared());
  make_folder(configs[1], folder.path() / "other", 4);
  configs[1].model.path = folder.path() / "other";
  EXPECT_FALSE(is_shared());
  configs[0].model.path.clear();
  configs[1].model.path.clear();
  EXPECT_FALSE(is_shared());
  configs = runs(folder);
  configs[1].train.precision = DType::fp32;
  EXPECT_FALSE(is_shared());
  // Packed, fp16 takes the bytes that bf16 does.
  configs[0].memory.frozen_as = configs[1].memory.frozen_as = ParameterFormat::nf4;
  configs[1].train.precision = DType::fp16;
  EXPECT_FALSE(is_shared());
}

TEST(SharedFrozenValues, OfRanksAreHeldOnceOnEach) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = runs(folder);
  for (RunConfig& config : configs) {
    config.memory = memory_of("host", folder);
    config.train.microbatch = 1;
  }
  for (const int pipeline : {1, 2}) {
    for (RunConfig& config : configs) config.parallel.pipeline = pipeline;
    const std::vector<JointOutcome> outcomes = test::run_together_on(2, configs);
    for (const JointOutcome& outcome : outcomes) {
      const auto [named, held] = frozen_bytes(outcome.plans.front().training().program);
      EXPECT_LT(held, named);
    }
    for (std::size_t m = 0; m < configs.size(); ++m) {
      const std::vector<JointOutcome> alone = test::run_together_on(2, {configs[m]});
      EXPECT_EQ(outcomes[0].results[m].state_hash, alone[0].results[0].state_hash) << m;
    }
  }
}

/// One goes on from a checkpoint, with what the folder had then.
TEST(SharedFrozenValues, ThatModelsDoNotBeginWithAlikeAreRefused) {
  const TemporaryFolder folder;
  std::vector<RunConfig> configs = runs(folder);
  configs.resize(2);
  configs[0].checkpoint.path = folder.path() / "out";
  RunConfig begun = configs[0];
  begun.train.steps = 1;
  test::run(begun);
  EXPECT_NO_THROW(run_together(configs));
  std::filesystem::remove_all(configs[0].checkpoint.path);
  test::run(begun);
  make_folder(configs[0], configs[0].model.path, 4);
  try {
    run_together(configs);
    ADD_FAILURE() << "it trained";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("models 1 and 2"));
    EXPECT_THAT(error.what(), HasSubstr("block.0"));
  }
}

}  // namespace
}  // namespace strata
