// The invariants of docs/explanation/invariants.md on a GPU: placement changes nothing, the plan is exact,
// serial equals overlapped, and a checkpoint continues to the same bits, on the GPU or across devices.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/documents_data.h"
#include "tests/support/devices.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::resident_bytes;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::tiny_run;

class OnGpu : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (const std::string why = test::why_no_device("cuda"); !why.empty()) GTEST_SKIP() << why;
    device_ = test::make_device("cuda", {});
    config_ = tiny_run(folder_.path());
    config_.device.kind = DeviceKind::cuda;
    config_.train.precision = GetParam();
  }
  RunOutcome run_on_gpu() { return run(config_, {.device = device_.get()}); }

  TemporaryFolder folder_;
  std::unique_ptr<Device> device_;
  RunConfig config_;
};

// Invariant (OnGpu.*): A background device changes no result.
TEST_P(OnGpu, PlacementChangesNoBitAndThePlanIsExact) {
  std::string expected;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    config_.plan.order = order;
    const Bytes resident = resident_bytes(config_), smallest = smallest_bytes(config_);
    for (const Bytes budget : {resident, resident / 2, resident / 4, smallest}) {
      config_.memory.device = std::max(budget, smallest);
      for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
        config_.plan.lanes = lanes;
        const RunOutcome outcome = run_on_gpu();
        if (expected.empty()) expected = outcome.result.state_hash;
        EXPECT_EQ(outcome.result.state_hash, expected)
            << "budget " << budget << ", order " << static_cast<int>(order) << ", lanes "
            << static_cast<int>(lanes);
        expect_the_plan_was_exact(outcome);
      }
    }
  }
}

TEST_P(OnGpu, ACheckpointContinuesToTheSameBits) {
  const std::string expected = run_on_gpu().result.state_hash;
  config_.checkpoint.path = (folder_.path() / "out").string();
  config_.train.steps = 2;
  run_on_gpu();
  config_.train.steps = 4;
  EXPECT_EQ(run_on_gpu().result.state_hash, expected);
}

TEST_P(OnGpu, LossesFollowTheCpu) {
  const TrainResult gpu = run_on_gpu().result;
  const TrainResult cpu = run(config_).result;
  const double tolerance = GetParam() == DType::fp32 ? 1e-4 : 1e-2;
  for (std::size_t step = 0; step < cpu.steps.size(); ++step) {
    EXPECT_NEAR(gpu.steps[step].loss, cpu.steps[step].loss, tolerance * cpu.steps[step].loss) << step;
  }
}

// Invariant (DocumentsOnGpu.*): Documents in one sequence are independent.
TEST(DocumentsOnGpu, TrainAsEachInASequenceOfItsOwn) {
  if (const std::string why = test::why_no_device("cuda"); !why.empty()) GTEST_SKIP() << why;
  const std::unique_ptr<Device> device = test::make_device("cuda", {});
  const Corpus corpus;
  for (const char* architecture : {"llama", "qwen3", "gpt2"}) {
    SCOPED_TRACE(architecture);
    RunConfig config = test::run_of_documents(corpus, architecture);
    config.device.kind = DeviceKind::cuda;
    test::expect_packed_is_apart(config, corpus, device.get());
  }
  RunConfig config = test::run_of_documents(corpus, "phi3");
  config.device.kind = DeviceKind::cuda;
  test::expect_losses_of_documents_alone(config, corpus, device.get());
}

INSTANTIATE_TEST_SUITE_P(Precisions, OnGpu, ::testing::ValuesIn(kPrecisions),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace strata
