// Nothing is allocated while steps run, the first one included: all memory is in the arenas, and kernels have
// the scratch that the report names. Small objects of the libraries that kernels call (a few hundred bytes
// per call, some KiB for a shape that is first seen) are no memory of a tier and are not counted.
#include <gtest/gtest.h>

#include "base/dirty_memory.h"
#include "engine/config/run_config.h"
#include "engine/run/execute/plan_check.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"
#include "tests/support/allocations.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

/// Large blocks of the global operator new, and arenas.
std::int64_t allocations() {
  return test::allocations_so_far().large + Arena::made_so_far();
}

constexpr std::int64_t kStart = -1;

/// Counts from the end of one step, or from the start of the run, to the end of another.
class CountBetween : public TrainListener {
 public:
  CountBetween(std::int64_t first, std::int64_t last) : first_(first), last_(last) {}
  void on_start(const std::string& /*source*/) override {
    if (first_ == kStart) before_ = allocations();
  }
  void on_step(const StepReport& report) override {
    if (report.step == first_) before_ = allocations();
    if (report.step == last_) counted_ = allocations() - before_;
  }
  std::int64_t counted() const { return counted_; }

 private:
  std::int64_t first_, last_, before_ = 0, counted_ = -1;
};

class EveryStep : public RoundListener {
 public:
  bool wants(const RoundOfRun& /*round*/) const override { return true; }
  void on_recorded(const RecordedStep& /*step*/, const RoundOfRun& /*round*/) override {}
};

// Invariant of planning: A step allocates nothing. Kernels hold the scratch memory that the report names.
TEST(Allocation, HappensInNoStep) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.train.steps = 8;
  const auto expect_none = [&](const std::string& what) {
    for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
      config.plan.lanes = lanes;
      CountBetween listener(kStart, 6);
      EveryStep recorded;
      test::run(config, {.fresh = true, .listener = &listener, .recording = {&recorded}});
      std::filesystem::remove_all(folder.path() / "out");  // a run looks at the checkpoints before it
      EXPECT_EQ(listener.counted(), 0) << "lanes " << static_cast<int>(lanes) << ", " << what;
    }
  };
  const Bytes resident = test::resident_bytes(config);
  config.memory.device = resident;
  expect_none("all on the device");
  config.memory.device = resident / 3;
  expect_none("a third on the device");
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  config.memory.nvme_path = {folder.path().string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  expect_none("state on a drive");
  config.checkpoint.path = (folder.path() / "out").string();
  config.checkpoint.every = 8;
  expect_none("steps of a run that saves, which do not");
}

/// A save needs its headers and the manifest, whatever the size of the state.
TEST(Allocation, OfASaveHasNothingToDoWithTheSizeOfTheState) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.train.steps = 8;
  config.checkpoint.every = 4;
  config.plan.lanes = LaneMode::serial;
  const auto count = [&](std::int64_t hidden_size) {
    config.model.config["hidden_size"] = hidden_size;
    config.checkpoint.path = (folder.path() / std::to_string(hidden_size)).string();
    CountBetween listener(1, 6);
    test::run(config, {.files = &test::quick(), .listener = &listener});
    return listener.counted();
  };
  EXPECT_EQ(count(32), count(64));
}

TEST(Allocation, IsCountedWhereItHappens) {
  const std::int64_t before = allocations();
  { const std::vector<char> large(test::kLargeAllocation); }
  EXPECT_EQ(allocations(), before + 1);
  { const Arena arena(1); }
  EXPECT_EQ(allocations(), before + 2);
}

/// The scratch of a run is the sum of what its report names, from the first step to the last. This holds on
/// any number of threads, with activations saved or recomputed, and with the state on the device or not.
// Invariant (Scratch.*): A step allocates nothing.
TEST(Scratch, OfARunIsWhatTheReportNames) {
  const test::TemporaryFolder folder;
  for (const DType precision : {DType::bf16, DType::fp32, DType::fp16}) {
    for (const int threads : {1, 3}) {
      for (const bool resident : {true, false}) {
        RunConfig config = test::tiny_run(folder.path());
        config.train.precision = precision;
        config.train.validate_every = 2;
        config.train.validation_batches = 2;
        if (!resident) config.memory.device = test::smallest_bytes(config);
        const test::RunOutcome outcome = test::run(config, {.device_threads = threads});
        const ScratchUse& scratch = outcome.result.scratch;
        EXPECT_GT(scratch.measured_bytes, 0);
        EXPECT_EQ(scratch.measured_bytes, total(scratch.planned)) << name_of(precision) << ", " << threads;
      }
    }
  }
}

TEST(Scratch, ThatIsMoreThanPlannedIsTold) {
  const test::TemporaryFolder folder;
  test::RunOutcome outcome = test::run(test::tiny_run(folder.path()));
  outcome.result.scratch.planned.front().bytes -= 1;
  const std::vector<std::string> told = differences_from_plan(outcome.plan, outcome.result);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].find("scratch: "), 0U) << told[0];
}

TEST(Arenas, ArePlannedPeaksAndTheirPagesAreTouchedNoFurther) {
  const DirtyMemory untouched(false);
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.memory.device = test::resident_bytes(config) / 2;
  const Model model = test::model_of(config);
  const Plan plan = test::make_plan(config, model);
  const BatchLoader data(config, model.architecture.vocabulary);
  CpuDevice device({.threads = 2, .link = {}});
  Trainer trainer({{config, model, training_data(data)}}, plan, device, {});
  TrainListener silent;
  trainer.train(std::atomic<bool>(false), silent);
  EXPECT_LE(plan.arena_bytes(Tier::device), config.memory.device);
  // Every page was used: the plan asks for nothing that a step does not touch.
  EXPECT_EQ(trainer.memory().device_resident_bytes(), plan.arena_bytes(Tier::device));
}

}  // namespace
}  // namespace strata
