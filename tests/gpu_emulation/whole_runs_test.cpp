// Whole runs of the CUDA device on the emulated GPU: what it is asked for is what CUDA and cuBLASLt take, and
// bits depend neither on when streams work nor on how host memory is locked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/checkpoint/hf_folder.h"
#include "engine/device/cuda/cuda_device.h"
#include "tests/execute/support.h"
#include "tests/gpu_emulation/emulated_machine.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using gpu_emulation::counts;
using gpu_emulation::machine;
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
TEST_F(WholeRuns, AskForWhatCudaAndCublasTake) {
  machine().computes = false;
  config_.train.steps = 1;
  std::int64_t models = 0;
  for (const auto& golden :
       std::filesystem::directory_iterator(test::source_folder() / "tests/parity/goldens")) {
    config_.model.config = read_hf_config((golden.path() / "model").string());
    config_.model.config["vocab_size"] = 257;
    config_.model.architecture = config_.model.config["model_type"];
    for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
      config_.train.precision = precision;
      for (const Bytes budget : {kUnlimited, test::smallest_bytes(config_)}) {
        SCOPED_TRACE(::testing::Message() << golden.path().filename() << ", " << name_of(precision));
        config_.memory.device = budget;
        const std::int64_t products = counts().products;
        const test::RunOutcome outcome = run();
        EXPECT_GT(counts().products, products);
        ASSERT_EQ(gpu_emulation::take_failure(), "");
        EXPECT_THAT(outcome.result.slow_paths, ElementsAre(HasSubstr("cuDNN")));
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

TEST_F(WholeRuns, HaveTheirBitsWhetherOrNotCublasAddsABias) {
  config_.model.architecture = "gpt2";
  config_.model.config = {
      {"n_layer", 2}, {"n_embd", 32}, {"n_head", 4}, {"n_positions", 24}, {"vocab_size", 128}};
  config_.train.steps = 1;
  const std::string expected = hash();
  machine().adds_bias = false;
  EXPECT_EQ(hash(), expected);
}

}  // namespace
}  // namespace strata
