// Nothing is allocated while steps run: all memory is in the arenas, and scratch is there after the first step. Small objects of
// the libraries that kernels call (a few hundred bytes per call) are no memory of a tier and are not counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/execute/support.h"

namespace {

constexpr std::size_t kCountedBytes = 4096;
std::atomic<bool> counting = false;
std::atomic<int> allocations = 0;

void count(std::size_t bytes) {
  if (counting && bytes >= kCountedBytes) ++allocations;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  count(bytes);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace strata {
namespace {

/// Counts from the end of one step to the end of another, with scratch that was sized by the steps before.
class CountBetween : public TrainListener {
 public:
  CountBetween(std::int64_t first, std::int64_t last) : first_(first), last_(last) {}
  void on_step(const StepReport& report) override {
    if (report.step == first_) counting = true;
    if (report.step == last_) counting = false;
  }

 private:
  std::int64_t first_, last_;
};

TEST(Allocation, HappensInNoStepAfterTheFirst) {
  const testing::TemporaryFolder folder;
  RunConfig config = testing::tiny_run(folder.path());
  config.train.steps = 8;
  for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
    for (const std::int64_t divisor : {1, 3}) {
      config.plan.lanes = lanes;
      config.memory.device = testing::resident_bytes(config) / divisor;
      allocations = 0;
      CountBetween listener(1, 6);
      testing::run(config, {.listener = &listener});
      EXPECT_EQ(allocations, 0) << "lanes " << static_cast<int>(lanes) << ", budget / " << divisor;
    }
  }
}

TEST(Allocation, IsCountedWhereItHappens) {
  allocations = 0;
  counting = true;
  { const std::vector<char> large(kCountedBytes); }
  counting = false;
  EXPECT_EQ(allocations, 1);
}

TEST(Arenas, ArePlannedPeaksAndTheirPagesAreTouchedNoFurther) {
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
  EXPECT_EQ(device.arena().size(), plan.arena_bytes(Tier::device));
  EXPECT_LE(device.arena().size(), config.memory.device);
  // Every page of the arena was used: the plan asks for nothing that a step does not touch.
  EXPECT_EQ(device.arena().resident_bytes(), plan.arena_bytes(Tier::device));
}

}  // namespace
}  // namespace strata
