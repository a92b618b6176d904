// Nothing is allocated while steps run: all memory is in the arenas, and scratch is there after the first
// step. Small objects of the libraries that kernels call (a few hundred bytes per call) are no memory of a
// tier and are not counted.
#include <gtest/gtest.h>

#include "base/dirty_memory.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"
#include "tests/support/allocations.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

/// Counts from the end of one step to the end of another, with scratch that was sized by the steps before.
class CountBetween : public TrainListener {
 public:
  CountBetween(std::int64_t first, std::int64_t last) : first_(first), last_(last) {}
  void on_step(const StepReport& report) override {
    if (report.step == first_) before_ = testing::allocations_so_far().large;
    if (report.step == last_) counted_ = testing::allocations_so_far().large - before_;
  }
  std::int64_t counted() const { return counted_; }

 private:
  std::int64_t first_, last_, before_ = 0, counted_ = -1;
};

TEST(Allocation, HappensInNoStepAfterTheFirst) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder.path());
  config.train.steps = 8;
  const auto expect_none = [&](const std::string& what) {
    for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
      config.plan.lanes = lanes;
      CountBetween listener(1, 6);
      testing::run(config, {.fresh = true, .listener = &listener});
      EXPECT_EQ(listener.counted(), 0) << "lanes " << static_cast<int>(lanes) << ", " << what;
    }
  };
  const Bytes resident = testing::resident_bytes(config);
  config.memory.device = resident;
  expect_none("all on the device");
  config.memory.device = resident / 3;
  expect_none("a third on the device");
  if (const std::string reason = testing::why_no_drive(folder.path()); !reason.empty())
    GTEST_SKIP() << reason;
  config.memory.nvme_path = {folder.path().string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  expect_none("state on a drive");
  config.checkpoint.path = (folder.path() / "out").string();
  config.checkpoint.every = 8;
  expect_none("steps of a run that saves, which do not");
}

/// A save needs its headers and the manifest, whatever the size of the state.
TEST(Allocation, OfASaveHasNothingToDoWithTheSizeOfTheState) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder.path());
  config.train.steps = 8;
  config.checkpoint.every = 4;
  config.plan.lanes = LaneMode::serial;
  const auto count = [&](std::int64_t hidden_size) {
    config.model.config["hidden_size"] = hidden_size;
    config.checkpoint.path = (folder.path() / std::to_string(hidden_size)).string();
    CountBetween listener(1, 6);
    testing::run(config, {.files = &test::quick(), .listener = &listener});
    return listener.counted();
  };
  EXPECT_EQ(count(32), count(64));
}

TEST(Allocation, IsCountedWhereItHappens) {
  const std::int64_t before = testing::allocations_so_far().large;
  { const std::vector<char> large(testing::kLargeAllocation); }
  EXPECT_EQ(testing::allocations_so_far().large, before + 1);
}

TEST(Arenas, ArePlannedPeaksAndTheirPagesAreTouchedNoFurther) {
  const DirtyMemory untouched(false);
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder.path());
  config.memory.device = testing::resident_bytes(config) / 2;
  const Model model = testing::model_of(config);
  const Plan plan = make_plan(config, model);
  const BatchLoader data(config, model.architecture.vocabulary);
  CpuDevice device({.threads = 2, .link = {}});
  Trainer trainer(config, model, plan, device, training_data(data), {});
  TrainListener silent;
  trainer.train(std::atomic<bool>(false), silent);
  EXPECT_LE(plan.arena_bytes(Tier::device), config.memory.device);
  // Every page was used: the plan asks for nothing that a step does not touch.
  EXPECT_EQ(trainer.state().device_resident_bytes(), plan.arena_bytes(Tier::device));
}

}  // namespace
}  // namespace strata
