// Saving as part of the step's program: where its instructions stand, and what passes make of them. Every
// checkpoint has the state after its step, whatever the other lanes have done meanwhile.
#include <gtest/gtest.h>

#include <regex>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::SymbolicState;
using test::tiny_model;
using test::tiny_strategy;
using test::with_late_updates;
using test::with_pieces;

constexpr SaveSchedule kSaves = {.every = 3, .steps = 8};

std::vector<StrategyOptions> saving_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const std::size_t units : {0, 2, 5}) {
        for (const bool clips : {true, false}) {
          options.push_back({order, precision, 2, false, units, clips, {}, true});
        }
      }
    }
  }
  return with_pieces(with_late_updates(std::move(options)));
}

/// The instructions that `matches`, a line each, without the numbers of buffers and what stands in them.
template <typename Matches>
std::string printed(const Program& program, const Matches& matches) {
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    if (matches(instruction)) text += print(program, instruction) + '\n';
  }
  return std::regex_replace(text, std::regex("#[0-9]+ [a-z_0-9]+\\[[0-9]+\\]"), "");
}

bool when_saving(const Instruction& instruction) {
  return instruction.when == When::saving;
}

/// All the optimizer's state on the nvme tier.
Program with_spilled_state(const Program& program) {
  TierChoices wanted;
  wanted[BufferKind::parameter] = wanted[BufferKind::gradient] = wanted[BufferKind::activation] =
      TierChoice::host;
  return spill(program, find_spill_order(program, wanted).buffers);
}

Program on_device(const Program& plain) {
  const Bytes budget = near_bytes(plain, kDevicePair).smallest + 16 * KiB;
  return prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
}

TEST(Saving, IsLoweredRightBehindEachUpdateAndReadsTheStateWhereItLives) {
  const Model model = tiny_model(1);
  const Program program = lower_training(model, tiny_strategy(model, {.units_on_device = 1, .saves = true}));
  std::string order;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.lane != Lane::save && instruction.operation != Operation::update &&
        instruction.operation != Operation::grad_norm)
      continue;
    order += std::string(name_of(instruction.operation)) + ' ';
  }
  EXPECT_EQ(
      order,
      "grad_norm save update save save save update save save save update save save save finish_checkpoint ");
  EXPECT_EQ(printed(program, when_saving),
            "save           [save] when saving step_record=host:step_record\n"
            "save           embedding [save] when saving master=device:embedding/master -> "
            "workspace=host:saved_state\n"
            "save           embedding [save] when saving exp_avg=device:embedding/exp_avg -> "
            "workspace=host:saved_state\n"
            "save           embedding [save] when saving exp_avg_sq=device:embedding/exp_avg_sq -> "
            "workspace=host:saved_state\n"
            "save           block.0 [save] when saving master=host:block.0/master\n"
            "save           block.0 [save] when saving exp_avg=host:block.0/exp_avg\n"
            "save           block.0 [save] when saving exp_avg_sq=host:block.0/exp_avg_sq\n"
            "save           head [save] when saving master=host:head/master\n"
            "save           head [save] when saving exp_avg=host:head/exp_avg\n"
            "save           head [save] when saving exp_avg_sq=host:head/exp_avg_sq\n"
            "finish_checkpoint [save] when saving\n");
}

TEST(Saving, OfAnFp32RunTakesTheParameterForTheMaster) {
  const Model model = tiny_model(1);
  const Program program =
      lower_training(model, tiny_strategy(model, {.precision = DType::fp32, .saves = true}));
  const std::string saves = printed(program, when_saving);
  EXPECT_NE(saves.find("save           head [save] when saving master=host:head/parameter\n"),
            std::string::npos);
}

TEST(Saving, IsInNoProgramThatWasNotAskedForIt) {
  const Model model = tiny_model(1);
  EXPECT_EQ(printed(lower_training(model, tiny_strategy(model)), when_saving), "");
  RunConfig config = test::tiny_config();
  config.checkpoint.every = 5;
  EXPECT_FALSE(make_strategy(config, model).saves);
  config.checkpoint.path = "out";
  EXPECT_TRUE(make_strategy(config, model).saves);
}

/// What a run without saving ends with must be part of what one with it does, and each saved value one that
/// the plain program saves.
// Invariant: Saving beside training changes no result.
TEST(SavingLongTest, GivesWhatTheStepLeftInAnyInterleaving) {
  const Model model = tiny_model();
  for (StrategyOptions options : saving_options()) {
    const Program program = on_device(lower_training(model, tiny_strategy(model, options)));
    const SymbolicState expected = run_in_order(program, 8, kSaves);
    EXPECT_EQ(expected.count("exp_avg of head at step 5"), 1U);  // which is smaller than a piece
    EXPECT_EQ(expected.count("exp_avg of head at step 6"), 0U);
    options.saves = false;
    for (const auto& [name, value] : run_in_order(lower_training(model, tiny_strategy(model, options)), 8)) {
      EXPECT_EQ(expected.at(name), value) << name;
    }
    const Program spilled = with_spilled_state(program);
    const Bytes smallest = near_bytes(spilled, kHostPair).smallest;
    const Program tight = prefetch(keep_resident(spilled, kHostPair, smallest), kHostPair, smallest);
    for (const Program& variant : {program, spilled, tight}) {
      const Program placed = place(variant);
      verify(placed, kNoLimits);
      EXPECT_EQ(run_in_order(variant, 8, kSaves), expected);
      for (std::uint32_t seed = 0; seed < 6; ++seed)
        EXPECT_EQ(run_in_random_order(placed, 8, seed, kSaves), expected);
    }
  }
}

TEST(Saving, ReadsNothingThatAnUpdateHasOnTheHostAlreadyAndTakesNoMoreMemory) {
  const Model model = tiny_model();
  StrategyOptions options = {.saves = true};
  const Program spilled = with_spilled_state(on_device(lower_training(model, tiny_strategy(model, options))));
  const auto is_read = [](const Instruction& instruction) {
    return instruction.operation == Operation::read && instruction.when == When::saving;
  };
  EXPECT_NE(printed(spilled, is_read), "");  // the plain form reads each part again, in steps that save
  const Bytes smallest = near_bytes(spilled, kHostPair).smallest;
  for (const Bytes budget : {smallest, smallest + 20 * KiB, kUnlimited}) {
    EXPECT_EQ(printed(keep_resident(spilled, kHostPair, budget), is_read), "");
  }
  options.saves = false;
  const Program without = with_spilled_state(on_device(lower_training(model, tiny_strategy(model, options))));
  EXPECT_LE(smallest, near_bytes(without, kHostPair).smallest + kBufferAlignment);  // the step's record
  EXPECT_EQ(moved_bytes(keep_resident(spilled, kHostPair, smallest), Operation::read),
            moved_bytes(keep_resident(without, kHostPair, smallest), Operation::read));
}

/// A value on the nvme tier that a save reads first and an update after it.
Program saved_before_updated() {
  Program program;
  const auto buffer = [&](Tier tier) {
    return program.add(
        {"state", tier, BufferKind::optimizer_state, kBufferAlignment, tier == Tier::nvme, -1});
  };
  const BufferId home = buffer(Tier::nvme), saved = buffer(Tier::host), updated = buffer(Tier::host);
  const auto moments = [](Role role, BufferId id) { return Operand{role, ElementType::fp32, id, 1000}; };
  const auto read = [&](BufferId to, When when) {
    program.instructions.push_back({Operation::read,
                                    Lane::read,
                                    -1,
                                    -1,
                                    {moments(Role::source, home)},
                                    {moments(Role::destination, to)},
                                    when});
  };
  read(saved, When::saving);
  program.instructions.push_back(
      {Operation::save, Lane::save, -1, -1, {moments(role_of(Moment::exp_avg), saved)}, {}, When::saving});
  read(updated, When::every_step);
  program.instructions.push_back(
      {Operation::update, Lane::cpu, -1, -1, {moments(role_of(Moment::exp_avg), updated)}, {}});
  return program;
}

TEST(Saving, LeavesAFetchThatAlsoServesAnUpdateToEveryStep) {
  const Program plain = saved_before_updated();
  const auto every_step = [](const Instruction& instruction) { return !when_saving(instruction); };
  const Program kept = keep_resident(plain, kHostPair, kUnlimited);
  EXPECT_EQ(printed(kept, every_step),
            "read           [read] source=nvme:state -> destination=host:state\n"
            "update         [cpu] exp_avg=host:state\n");
  EXPECT_EQ(printed(kept, when_saving), "save           [save] when saving exp_avg=host:state\n");
  verify(place(kept), kNoLimits);
}

TEST(Verify, RefusesAReadInEveryStepOfWhatOnlySomeStepsWrite) {
  Program program = place(saved_before_updated());
  EXPECT_NO_THROW(verify(program, kNoLimits));
  program.instructions[2].when = When::saving;
  EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
}

TEST(SaveSchedule, IsEverySoManyStepsAndTheLast) {
  std::vector<std::int64_t> saving, latest;
  for (std::int64_t step = 0; step < kSaves.steps; ++step) {
    if (kSaves.saves(step)) saving.push_back(step);
    latest.push_back(kSaves.latest(step));
  }
  EXPECT_EQ(saving, (std::vector<std::int64_t>{2, 5, 7}));
  EXPECT_EQ(latest, (std::vector<std::int64_t>{-1, -1, 2, 2, 2, 5, 5, 7}));
  EXPECT_FALSE(SaveSchedule{}.saves(0));
}

/// A saver that takes the disk long must hold up only what would overwrite what it reads.
TEST(Dependencies, OnWhatAStepDoesNotSaveReachBackToTheCheckpointBeforeItButNotToItsEnd) {
  const Model model = tiny_model(1);
  const Program program = place(lower_training(model, tiny_strategy(model, {.saves = true})));
  const Dependencies dependencies = find_dependencies(program);
  const Rounds rounds = first_rounds(program, kSaves.steps, kSaves);
  const auto per_step = static_cast<std::int64_t>(dependencies.lanes[Lane::save].size());
  const LanePosition third_of_the_step_before = {2, true};
  EXPECT_LT(needed(dependencies, Lane::save, third_of_the_step_before, 2, rounds), 0);
  EXPECT_EQ(needed(dependencies, Lane::save, third_of_the_step_before, 3, rounds), 2 * per_step + 3);
  EXPECT_EQ(needed(dependencies, Lane::save, third_of_the_step_before, 4, rounds), 3 * per_step - 1);
  EXPECT_EQ(needed(dependencies, Lane::save, third_of_the_step_before, 5, rounds), 3 * per_step - 1);
}

}  // namespace
}  // namespace strata
