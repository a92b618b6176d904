// Whole runs of the CUDA device on the emulated GPU. CUDA and cuBLASLt take all calls, and bits depend
// neither on when streams work nor on how host memory is locked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/config/run_config.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "tests/execute/support.h"
#include "tests/gpu_emulation/emulated_machine.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using gpu_emulation::counts;
using gpu_emulation::machine;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WholeRuns : public gpu_emulation::EmulatedMachine {
 protected:
  WholeRuns() { config_.device.kind = DeviceKind::cuda; }

  test::RunOutcome run(const CudaLocking& locking = {}) {
    CudaDevice device(0, locking);
    return test::run(config_, {.device = &device});
  }
  std::string hash(const CudaLocking& locking = {}) { return run(locking).result.state_hash; }

  test::TemporaryFolder folder_;
  RunConfig config_ = test::tiny_run(folder_.path());
};

/// Shapes, strides, alignments, grids and places of operands, of every architecture and precision, with all
/// in the device's memory and with as little as works.
// Invariant of devices (WholeRuns*.*): The CUDA device keeps its interface. On an emulated GPU, runs give
// their bits however late streams work and however host memory is locked. cuBLASLt takes every product, and
// cuDNN has a plan for each attention on GPUs that are not here.
TEST_F(WholeRuns, AskForWhatCudaAndCublasTake) {
  machine().computes = false;
  config_.train.steps = 1;
  std::int64_t models = 0;
  for (const auto& golden :
       std::filesystem::directory_iterator(test::source_folder() / "tests/parity/goldens")) {
    if (std::filesystem::exists(golden.path() / "adapter")) continue;  // others have these architectures
    config_.model.config = read_hf_config((golden.path() / "model").string());
    config_.model.config["vocab_size"] = 257;
    config_.model.architecture = config_.model.config["model_type"];
    for (const Precision& precision : kPrecisions) {
      config_.train.precision = precision;
      for (const Bytes budget : {kUnlimited, test::smallest_bytes(config_)}) {
        if (precision == kFp8 && budget == kUnlimited) continue;  // its calls are those of less memory
        SCOPED_TRACE(::testing::Message() << golden.path().filename() << ", " << name_of(precision));
        config_.memory.device = budget;
        const std::int64_t products = counts().products;
        const test::RunOutcome outcome = run();
        EXPECT_GT(counts().products, products);
        ASSERT_EQ(gpu_emulation::take_failure(), "");
        EXPECT_THAT(outcome.result.slow_paths, Contains(HasSubstr("cuDNN")));
        EXPECT_THAT(outcome.result.slow_paths,
                    Each(AnyOf(HasSubstr("cuDNN"), HasSubstr("no multiples of 16"))));
        if (precision != kFp8) {
          EXPECT_EQ(outcome.result.slow_paths.size(), 1U);
        }
      }
    }
    ++models;
  }
  EXPECT_GE(models, 20);
}

TEST_F(WholeRuns, HaveTheirBitsHoweverLateStreamsWork) {
  config_.memory.device = test::smallest_bytes(config_);
  config_.train.steps = 3;
  const std::string expected = hash();
  machine().lazy = true;
  EXPECT_EQ(hash(), expected);
}

TEST_F(WholeRuns, HaveTheirBitsWhereHostMemoryIsLockedInPiecesOrNotAtAll) {
  config_.memory.device = test::smallest_bytes(config_);
  config_.train.steps = 2;
  const std::string expected = hash();
  EXPECT_EQ(hash({.piece_bytes = 20 * KiB}), expected);
  machine().lockable_bytes = 256 * KiB;
  machine().largest_lock = 16 * KiB;
  const test::RunOutcome outcome = run({.staging_bytes = 12 * KiB});
  EXPECT_EQ(outcome.result.state_hash, expected);
  EXPECT_THAT(outcome.result.slow_paths, ElementsAre(HasSubstr("cannot be locked"), HasSubstr("cuDNN")));
}

/// All products of this model's blocks have sizes for FP8.
TEST_F(WholeRuns, MultiplyInFp8WhereTheGpuDoesAndSayWhereItDoesNot) {
  config_.train.precision = kFp8;
  config_.train.steps = 1;
  std::int64_t in_float8 = 0;
  const auto run_counted = [&] {
    const std::int64_t before = counts().float8_products;
    test::RunOutcome outcome = run();
    in_float8 = counts().float8_products - before;
    return outcome;
  };
  const test::RunOutcome on_hopper = run_counted();
  // A step's microbatches, layers, products of each, passes; forward ones are made again.
  EXPECT_GE(in_float8, 3 * 3 * 4 * 3);
  EXPECT_THAT(on_hopper.result.slow_paths, ElementsAre(HasSubstr("cuDNN")));
  machine().compute_capability = 80;
  const test::RunOutcome on_ampere = run_counted();
  EXPECT_EQ(in_float8, 0);
  EXPECT_THAT(on_ampere.result.slow_paths, Contains(HasSubstr("this GPU multiplies no FP8")));
  EXPECT_NEAR(on_ampere.result.steps.front().loss, on_hopper.result.steps.front().loss, 1e-3);
  machine().compute_capability = 90;
  config_.data.sequence_length = 23;
  const test::RunOutcome of_odd_sizes = run_counted();
  EXPECT_EQ(in_float8, 0);
  EXPECT_THAT(of_odd_sizes.result.slow_paths, Contains(HasSubstr("sizes that are no multiples of 16")));
}

TEST_F(WholeRuns, HaveTheirBitsBesideFrozenParametersInBlocks) {
  config_.train.steps = 2;
  config_.train.freeze = {"model.layers.*"};
  config_.memory.frozen_as = ParameterFormat::nf4;
  const std::string expected = hash();
  config_.memory.device = test::smallest_bytes(config_);
  machine().lazy = true;
  const test::RunOutcome outcome = run();
  EXPECT_EQ(outcome.result.state_hash, expected);
  test::expect_the_plan_was_exact(outcome);
}

TEST_F(WholeRuns, HaveTheirBitsWhereParametersTravelAsFp8) {
  config_.train.precision = kFp8;
  config_.train.steps = 2;
  config_.memory.device = test::smallest_bytes(config_);
  const std::string expected = hash();
  config_.memory.trained_as = ParameterFormat::fp8;
  machine().lazy = true;
  const test::RunOutcome outcome = run();
  EXPECT_EQ(outcome.result.state_hash, expected);
  test::expect_the_plan_was_exact(outcome);
}

// Invariant: Samples are those of generation.
TEST_F(WholeRuns, TakeTheSamplesOfACpu) {
  config_.train.precision = DType::fp32;
  config_.samples = {.prompts = {"line ", "of a small"}, .every = 2, .max_length = 16};
  const test::RunOutcome outcome = run();
  test::expect_the_plan_was_exact(outcome);
  RunConfig on_cpu = config_;
  on_cpu.device.kind = DeviceKind::cpu;
  const std::vector<SamplePoint> expected = test::run(on_cpu).result.samples;
  ASSERT_EQ(outcome.result.samples.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t sample = 0; sample < 2; ++sample)
      EXPECT_EQ(outcome.result.samples[i].samples[sample].ids, expected[i].samples[sample].ids);
  }
}

class WholeRunsOfGpt2 : public WholeRuns {
 protected:
  WholeRunsOfGpt2() {
    config_.model.architecture = "gpt2";
    config_.model.config = {
        {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"n_positions", 24}, {"vocab_size", 128}};
    config_.train.steps = 1;
  }
};

TEST_F(WholeRunsOfGpt2, HaveTheirBitsWhetherOrNotCublasAddsABias) {
  machine().applies_gelu = false;
  const std::string expected = hash();
  machine().adds_bias = false;
  EXPECT_EQ(hash(), expected);
}

/// cuBLASLt applies it to sums that are not rounded yet, and what is made again is made of rounded ones.
TEST_F(WholeRunsOfGpt2, HaveTheirBitsWhateverIsSavedOfWhatCublasAppliesGeluTo) {
  config_.train.precision = {DType::bf16};
  config_.train.recompute = Recompute::none;
  const std::int64_t before = counts().gelu_products;
  const std::string expected = hash();
  EXPECT_GT(counts().gelu_products, before);
  config_.train.recompute = Recompute::full;
  EXPECT_EQ(hash(), expected);
  config_.memory.device = test::smallest_bytes(config_);
  EXPECT_EQ(hash(), expected);
  machine().applies_gelu = false;
  EXPECT_NE(hash(), expected);
}

}  // namespace
}  // namespace strata
