// Kernels are timed for every pass that a plan may have.
#include "engine/run/execute/kernel_times.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

class KernelsOf : public ::testing::TestWithParam<const char*> {};

RunConfig config_of(const std::filesystem::path& folder, const std::string& architecture) {
  RunConfig config = test::tiny_run(folder);
  if (architecture == "llama") return config;
  config.model.architecture = architecture;
  config.model.config = {{"vocab_size", 128}};
  if (architecture == "gpt2") {
    config.model.config.update({{"n_embd", 16}, {"n_head", 2}, {"n_layer", 2}});
  } else {
    config.model.config.update({{"num_hidden_layers", 2},
                                {"hidden_size", 16},
                                {"num_attention_heads", 4},
                                {"num_key_value_heads", 2},
                                {"intermediate_size", 20},
                                {"num_local_experts", 4}});
  }
  return config;
}

/// Whatever a plan saves, each of its calls has been timed, and a call's time is not asked for twice.
TEST_P(KernelsOf, AllPassesAreTimed) {
  const test::TemporaryFolder folder;
  RunConfig config = config_of(folder.path(), GetParam());
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    config.train.precision = precision;
    const Model model = test::model_of(config);
    const std::unique_ptr<Device> device = test::make_cpu_device({.threads = 2, .link = {}});
    KernelTimes times;
    measure_kernels(*device, model, precision, {config.train.microbatch, config.data.sequence_length},
                    kUnlimited, times);
    EXPECT_TRUE(times.is_valid());
    for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::automatic}) {
      config.train.recompute = recompute;
      const Plan plan = test::make_plan(config, model);
      const Works& works = plan.training().program.works;
      ASSERT_GT(works.size(), 2U);
      for (std::int32_t work = 0; work < std::ssize(works); ++work) {
        for (const auto& [call, repeated] : *works[work]) EXPECT_TRUE(times.has(call)) << call.name;
      }
    }
    const KernelTimes before = times;
    measure_kernels(*device, model, precision, {config.train.microbatch, config.data.sequence_length},
                    kUnlimited, times);
    EXPECT_EQ(times, before);
  }
}

TEST(Kernels, OfAPassThatHasNoRoomAreNotTimed) {
  const test::TemporaryFolder folder;
  const RunConfig config = test::tiny_run(folder.path());
  const std::unique_ptr<Device> device = test::make_cpu_device({.threads = 2, .link = {}});
  KernelTimes times;
  EXPECT_THROW(measure_kernels(*device, test::model_of(config), DType::bf16, {1, 8}, 1000, times),
               DeviceError);
  EXPECT_TRUE(times.is_empty());
}

INSTANTIATE_TEST_SUITE_P(Architectures, KernelsOf, ::testing::Values("llama", "gpt2", "mixtral"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace strata
