// The invariants of docs/explanation/invariants.md on whole runs: placement changes nothing, the plan is
// exact, serial equals overlapped.
#include <gtest/gtest.h>

#include <set>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::resident_bytes;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::tiny_run;

struct Arithmetic {
  Precision precision;
  Recompute recompute;
  double clip_norm = 1;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
};
constexpr Arithmetic kSplitMaster = {DType::bf16, Recompute::full, 0, MasterFormat::split};
constexpr Arithmetic kSmallSplitState = {DType::bf16, Recompute::full, 1, MasterFormat::split,
                                         MomentFormat::bf16};
constexpr Arithmetic kSmallestState = {DType::bf16, Recompute::automatic, 0, MasterFormat::none,
                                       MomentFormat::coded};
constexpr Arithmetic kWithBf16Moments = {DType::fp32, Recompute::full, 0, MasterFormat::fp32,
                                         MomentFormat::bf16};

/// A test per order, so that each stays short under a sanitizer.
class Placement : public ::testing::TestWithParam<std::tuple<Arithmetic, Order>> {};

// Invariant of placement: Placement changes no result. Every budget, order, lane mode, thread count and link
// speed gives the same bits of parameters and optimizer state.
// Invariant of planning: The plan is exact. The planned peak is the measured peak on every tier. The planned
// bytes are the copied bytes on every link.
TEST_P(Placement, ChangesNoBitAndThePlanIsExact) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  const auto& [arithmetic, order] = GetParam();
  config.train.precision = arithmetic.precision;
  config.train.recompute = arithmetic.recompute;
  config.optimizer.clip_norm = arithmetic.clip_norm;
  config.optimizer.master = arithmetic.master;
  config.optimizer.moments = arithmetic.moments;
  config.plan.lanes = LaneMode::serial;
  config.plan.order = Order::layer_major;
  const std::string expected = run(config, {.device_threads = 1}).result.state_hash;
  config.plan.order = order;
  const Bytes resident = resident_bytes(config);
  const Bytes smallest = smallest_bytes(config);
  for (const Bytes budget : {kUnlimited, resident / 2, resident / 4, smallest}) {
    config.memory.device = std::max(budget, smallest);
    for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
      config.plan.lanes = lanes;
      for (const int threads : {1, 2}) {
        config.train.threads = threads;
        for (const bool throttled : {false, true}) {
          LinkLimit link;
          if (throttled) link = {.to_device = 400e6, .to_host = 400e6};
          const RunOutcome outcome = run(config, {.device_threads = threads, .link = link});
          EXPECT_EQ(outcome.result.state_hash, expected)
              << "budget " << budget << ", lanes " << static_cast<int>(lanes) << ", threads " << threads
              << ", throttled " << throttled;
          expect_the_plan_was_exact(outcome);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PrecisionsAndOrders, Placement,
                         ::testing::Combine(::testing::Values(Arithmetic{DType::bf16, Recompute::full},
                                                              Arithmetic{DType::bf16, Recompute::none},
                                                              Arithmetic{DType::fp32, Recompute::full},
                                                              Arithmetic{DType::fp16, Recompute::full},
                                                              Arithmetic{DType::bf16, Recompute::full, 0},
                                                              Arithmetic{DType::fp32, Recompute::full, 0},
                                                              Arithmetic{kFp8, Recompute::full}, kSplitMaster,
                                                              kSmallSplitState, kSmallestState,
                                                              kWithBf16Moments),
                                            ::testing::Values(Order::layer_major, Order::microbatch_major)));

// Invariant of placement (Recomputation.*): Recomputation changes no result. Saved and recomputed activations
// give the same bits.
TEST(Recomputation, ChangesNoBit) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.recompute = Recompute::full;
  const std::string full = run(config).result.state_hash;
  config.train.recompute = Recompute::none;
  EXPECT_EQ(run(config).result.state_hash, full);
}

TEST(Recomputation, TensorByTensorChangesNoBitAndThePlanIsExact) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.data.sequence_length = 256;
  config.train.steps = 2;
  config.train.batch = 16;
  const std::string expected = run(config).result.state_hash;
  config.memory.device = 2 * smallest_bytes(config);
  std::set<std::vector<std::size_t>> levels;
  for (double rate = 1e11; rate > 1e6; rate /= 2) {  // that plans are made for
    config.device.h2d_per_second = config.device.d2h_per_second = static_cast<Bytes>(rate);
    const Model model = test::model_of(config);
    const Plan plan = test::make_plan(config, model, test::kTinyPiece, SearchEffort::thorough);
    if (!levels.insert(plan.only().strategy.saved_level).second) continue;
    const RunOutcome outcome = run(config, {.effort = SearchEffort::thorough});
    EXPECT_EQ(outcome.result.state_hash, expected) << rate;
    expect_the_plan_was_exact(outcome);
  }
  EXPECT_GE(levels.size(), 4U);  // of three blocks, more than whole ones give
}

TEST(Pins, ChangeNoBitAndThePlanIsExact) {
  const TemporaryFolder folder;
  using Memory = MemorySection;
  struct Format {
    DType precision;
    MasterFormat master;
  };
  for (const Format& format :
       {Format{DType::bf16, MasterFormat::fp32}, Format{DType::bf16, MasterFormat::split},
        Format{DType::bf16, MasterFormat::none}, Format{DType::fp32, MasterFormat::fp32}}) {
    RunConfig config = tiny_run(folder.path());
    config.train.precision = format.precision;
    config.optimizer.master = format.master;
    config.train.validate_every = 2;
    const std::string expected = run(config).result.state_hash;
    const Bytes resident = resident_bytes(config);
    for (TierChoice Memory::*kind :
         {&Memory::parameters, &Memory::optimizer_state, &Memory::gradients, &Memory::activations}) {
      config.memory = tiny_run(folder.path()).memory;
      config.memory.*kind = TierChoice::host;
      const Bytes smallest = smallest_bytes(config);
      for (const TierChoice tier : {TierChoice::host, TierChoice::device}) {
        config.memory.*kind = tier;
        config.memory.device = tier == TierChoice::host ? smallest : resident;
        const RunOutcome outcome = run(config);
        EXPECT_EQ(outcome.result.state_hash, expected);
        expect_the_plan_was_exact(outcome);
      }
      EXPECT_GT(smallest_bytes(config), smallest) << "what is pinned needs room";
    }
  }
}

TEST(UpdatesDuringTheBackwardPass, GiveTheBitsOfUpdatesAfterIt) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.memory.device = smallest_bytes(config);
  config.optimizer.clip_norm = 1e30;
  const std::string after = run(config).result.state_hash;
  config.optimizer.clip_norm = 0;
  EXPECT_EQ(run(config).result.state_hash, after);
}

TEST(Training, LearnsATinyText) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 60;
  config.train.validate_every = 60;
  const TrainResult result = run(config).result;
  EXPECT_LT(result.steps.back().loss, 0.6 * result.steps.front().loss);
  ASSERT_EQ(result.validation.size(), 2U);
  EXPECT_LT(result.validation.back().loss, 0.6 * result.validation.front().loss);
}

TEST(Validation, ChangesNoBitOfTraining) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.memory.device = resident_bytes(config) / 2;
  const std::string without = run(config).result.state_hash;
  config.train.validate_every = 1;
  const RunOutcome with = run(config);
  EXPECT_EQ(with.result.state_hash, without);
  EXPECT_EQ(with.result.validation.size(), 5U);
  expect_the_plan_was_exact(with);
}

}  // namespace
}  // namespace strata
