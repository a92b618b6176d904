// What is called measured is counted where it happens: a plan that lies in any figure is told so, though
// every figure of it agrees with all the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/dirty_memory.h"
#include "engine/config/run_config.h"
#include "engine/run/execute/plan_check.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::RunOptions;
using test::RunOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr Bytes kLie = kBufferAlignment;

PlannedProgram& training_of(Plan& plan) {
  return plan.models.front()->training;
}

Bytes& peak_of(Plan& plan, Tier tier) {
  return training_of(plan).use[tier].peak_bytes;
}

/// The first instruction that `is` what is wanted.
template <typename Is>
Instruction& find(Program& program, const Is& is) {
  const auto found = std::ranges::find_if(program.instructions, is);
  EXPECT_NE(found, program.instructions.end());
  return *found;
}

/// Gives an instruction another buffer to read, which its operation ignores.
void read_more(Program& program, Instruction& instruction, Tier tier, Bytes offset) {
  const BufferId id = program.add({.name = "lie",
                                   .tier = tier,
                                   .kind = BufferKind::workspace,
                                   .bytes = kLie,
                                   .persistent = true,
                                   .offset = offset});
  instruction.reads.push_back({Role::shared_gradient, ElementType::byte, id, kLie});
}

class LyingPlan : public ::testing::Test {
 protected:
  /// All tiers and links between them are used, and step 4 saves.
  RunConfig config() const {
    RunConfig config = test::tiny_run(folder_.path());
    config.memory.device = test::smallest_bytes(config);
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
    return config;
  }
  std::vector<std::string> told(const RunConfig& config, std::function<void(Plan&)> lie) const {
    const RunOutcome outcome = test::run(config, {.files = &test::quick(), .change_plan = std::move(lie)});
    return differences_from_plan(outcome.plan, outcome.result);
  }
  /// Asks all ranks; each must say the same.
  std::vector<std::string> told_to_ranks(RunConfig config, const std::function<void(Plan&)>& lie) const {
    const std::vector<RunOutcome> ranks =
        test::run_ranks(std::move(config), 2, [&](int) { return RunOptions{.change_plan = lie}; });
    std::vector<std::string> first = differences_from_plan(ranks[0].plan, ranks[0].result);
    EXPECT_EQ(differences_from_plan(ranks[1].plan, ranks[1].result), first);
    return first;
  }
  bool has_drive() const { return test::why_no_drive(folder_.path()).empty(); }

  test::TemporaryFolder folder_;
};

/// A buffer that nothing touches, though an instruction names it and the tier has room for it.
// Invariant of planning (LyingPlan.*): Measurements do not trust the plan. A run reports every figure in
// which its plan is wrong. The measured peak is that of the memory that changed.
TEST_F(LyingPlan, AboutAPeakIsTold) {
  for (const Tier tier : kTiers) {
    if (tier == Tier::nvme && !has_drive()) continue;
    const RunConfig run = tier == Tier::nvme || has_drive() ? config() : test::tiny_run(folder_.path());
    const auto lie = [&](Plan& plan) {
      Program& program = training_of(plan).program;
      Instruction& update =
          find(program, [](const Instruction& each) { return each.operation == Operation::update; });
      read_more(program, update, tier, plan.arena_bytes(tier));
      peak_of(plan, tier) = plan.arena_bytes(tier) + kLie;
    };
    EXPECT_THAT(told(run, lie), ElementsAre(StartsWith(std::string(name_of(tier)) + " memory")))
        << name_of(tier);
    EXPECT_THAT(told(run, {}), IsEmpty());
  }
}

TEST_F(LyingPlan, AboutAPeakThatIsHigherIsTold) {
  RunOutcome outcome = test::run(test::tiny_run(folder_.path()));
  EXPECT_THAT(differences_from_plan(outcome.plan, outcome.result), IsEmpty());
  for (const Tier tier : {Tier::device, Tier::host}) {
    Plan plan = outcome.plan;
    peak_of(plan, tier) -= kLie;
    EXPECT_THAT(differences_from_plan(plan, outcome.result),
                ElementsAre(StartsWith(std::string(name_of(tier)) + " memory")));
  }
}

TEST_F(LyingPlan, AboutALinkIsTold) {
  if (!has_drive()) GTEST_SKIP() << test::why_no_drive(folder_.path());
  for (const Link link : {Link::h2d, Link::d2h, Link::nvme_read, Link::nvme_write}) {
    const auto lie = [link](Plan& plan) { training_of(plan).step_traffic[link] -= kLie; };
    EXPECT_THAT(told(config(), lie), ElementsAre(StartsWith(std::string(name_of(link)) + ":")));
  }
}

/// The buffer that is written claims to be larger, and the plan counts it so.
TEST_F(LyingPlan, AboutTheSizeOfWhatIsWrittenIsTold) {
  if (!has_drive()) GTEST_SKIP() << test::why_no_drive(folder_.path());
  const auto lie = [](Plan& plan) {
    PlannedProgram& training = training_of(plan);
    const Instruction& write =
        find(training.program, [](const Instruction& each) { return each.operation == Operation::write; });
    training.program.buffer(write.reads[0].buffer).bytes += kLie;
    training.step_traffic = traffic_of(training.program, When::every_step);
  };
  EXPECT_THAT(told(config(), lie), ElementsAre(StartsWith("nvme_write:")));
}

/// A save claims to copy more from the device.
TEST_F(LyingPlan, AboutWhatASaveMovesIsTold) {
  RunConfig config = test::tiny_run(folder_.path());
  config.checkpoint.path = (folder_.path() / "out").string();
  config.checkpoint.every = 2;
  const auto lie = [](Plan& plan) {
    PlannedProgram& training = training_of(plan);
    Instruction& save = find(training.program, [](const Instruction& each) {
      return each.operation == Operation::save && each.find(Role::workspace) >= 0;
    });
    read_more(training.program, save, Tier::device, 0);
    training.save_traffic = traffic_of(training.program, When::saving);
  };
  EXPECT_THAT(told(config, lie), ElementsAre(StartsWith("d2h:")));
}

TEST_F(LyingPlan, AboutAnExchangeIsTold) {
  RunConfig config = test::tiny_run(folder_.path());
  config.parallel.shard = 2;
  for (const Link link : {Link::all_gather, Link::reduce_scatter, Link::all_reduce}) {
    const auto lie = [link](Plan& plan) {
      PlannedProgram& training = training_of(plan);
      find(training.program, [link](const Instruction& each) {
        return link_of(each.operation) == link;
      }).exchange.sent += 8;
      training.step_traffic = traffic_of(training.program, When::every_step);
    };
    EXPECT_THAT(told_to_ranks(config, lie), ElementsAre(StartsWith(std::string(name_of(link)) + ":")));
  }
  EXPECT_THAT(told_to_ranks(config, {}), IsEmpty());
}

TEST_F(LyingPlan, IsNotHeldAgainstARunThatWasStoppedBeforeItTouchedAll) {
  RunOutcome outcome = test::run(test::tiny_run(folder_.path()));
  outcome.result.interrupted = true;
  peak_of(outcome.plan, Tier::device) += kLie;
  training_of(outcome.plan).step_traffic[Link::h2d] += kLie;
  EXPECT_THAT(differences_from_plan(outcome.plan, outcome.result), IsEmpty());
}

/// The memory itself: above the measured peak lies only what it was filled with, and the page below it holds
/// something else.
// Invariant (MeasuredPeak.*): Measurements do not trust the plan.
TEST(MeasuredPeak, IsThatOfTheMemoryThatChanged) {
  const DirtyMemory dirty(true);
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.memory.device = test::resident_bytes(config) / 2;
  const Model model = test::model_of(config);
  Plan plan = test::make_plan(config, model);
  const EnumArray<Tier, Bytes> honest = {plan.arena_bytes(Tier::device), plan.arena_bytes(Tier::host)};
  // Memory that the plan asks for and nothing touches.
  for (const Tier tier : {Tier::device, Tier::host}) peak_of(plan, tier) = plan.arena_bytes(tier) + 5 * kLie;
  const BatchLoader data(config, model.architecture.vocabulary);
  const std::unique_ptr<Device> device = test::make_cpu_device({.threads = 2, .link = {}});
  Trainer trainer({{config, model, training_data(data)}}, plan, *device, {});
  TrainListener silent;
  const TrainResult result = trainer.train(std::atomic<bool>(false), silent);
  for (const Tier tier : {Tier::device, Tier::host}) {
    const std::byte* memory =
        tier == Tier::device ? trainer.memory().tiers().device : trainer.memory().tiers().host;
    Bytes end = plan.arena_bytes(tier);
    while (end > 0 && memory[end - 1] == kDirt) --end;
    EXPECT_EQ(result.measured.count.peak_bytes[tier], align_up(end, kBufferAlignment)) << name_of(tier);
    EXPECT_EQ(result.measured.count.peak_bytes[tier], honest[tier]) << name_of(tier);
  }
  EXPECT_THAT(differences_from_plan(plan, result),
              ElementsAre(HasSubstr("device memory"), HasSubstr("host memory")));
}

TEST(Meter, TellsOfMemoryThatIsInNoTierAndOfWhatGoesBeyondATier) {
  std::array<std::byte, 3 * kBufferAlignment> memory = {};
  Meter meter;
  meter.watch(Tier::device, memory.data(), kBufferAlignment);
  meter.touch(memory.data(), 10);
  EXPECT_EQ(meter.take().peak_bytes[Tier::device], kBufferAlignment);
  meter.touch(memory.data() + 10, kBufferAlignment);  // ten bytes too far
  meter.touch(memory.data() + 2 * kBufferAlignment, 7);
  const MeterCount count = meter.take();
  EXPECT_EQ(count.peak_bytes[Tier::device], 2 * kBufferAlignment);
  EXPECT_EQ(count.outside_bytes, 7);
  EXPECT_EQ(meter.take().peak_bytes[Tier::device], 0);
}

TEST(Meter, CountsTheLastElementOfAStridedMatrixAndNothingOfAnEmptyOne) {
  std::array<std::byte, 4 * kBufferAlignment> memory = {};
  Meter meter;
  meter.watch(Tier::host, memory.data(), std::ssize(memory));
  meter.touch(Matrix(memory.data(), DType::bf16, 2, kBufferAlignment / 2 + 1, kBufferAlignment / 2));
  EXPECT_EQ(meter.take().peak_bytes[Tier::host], 3 * kBufferAlignment);
  meter.touch(Matrix(memory.data(), DType::bf16, 0, 8));
  meter.touch(Matrix());
  EXPECT_EQ(meter.take().peak_bytes[Tier::host], 0);
}

}  // namespace
}  // namespace strata
