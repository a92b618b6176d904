// What every pass must keep: the meaning of the program, at every budget; and what each is for.
#include <gtest/gtest.h>

#include <set>

#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::tiny_model;
using test::tiny_strategy;
using test::with_late_updates;

/// One rank, without pins.
std::vector<StrategyOptions> free_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const DType precision : {DType::fp32, DType::bf16}) {
      for (const bool save : {false, true}) {
        for (const std::size_t on_device : {0, 2, 5}) {
          for (const bool clips : {true, false})
            options.push_back({order, precision, 3, save, on_device, clips});
        }
      }
    }
  }
  return options;
}

std::vector<StrategyOptions> all_options() {
  std::vector<StrategyOptions> options = free_options();
  for (StrategyOptions pinned : free_options()) {
    if (pinned.units_on_device != 2) continue;
    for (const DevicePins& pins : {DevicePins{.parameters = true}, DevicePins{.gradients = true},
                                   DevicePins{.activations = true}, DevicePins{true, true, true}}) {
      pinned.pins = pins;
      options.push_back(pinned);
    }
  }
  for (StrategyOptions divided : free_options()) {
    divided.divides_backward = true;
    options.push_back(divided);
  }
  for (StrategyOptions sharded : free_options()) {
    if (sharded.units_on_device == 5) continue;
    sharded.divides_backward = sharded.units_on_device == 2;
    sharded.mesh = {.replicate = sharded.save ? 2 : 1, .shard = 3};
    for (const int stage : {1, 2, 3}) {
      sharded.zero_stage = stage;
      sharded.delays_reduction = stage != 1;
      sharded.pins.parameters = stage != 2 && sharded.clips;
      sharded.reduce_dtype = sharded.precision == DType::bf16 && sharded.clips ? DType::bf16 : DType::fp32;
      options.push_back(sharded);
    }
  }
  return with_late_updates(std::move(options));
}

/// Budgets from the smallest possible to more than enough.
std::vector<Bytes> budgets(const Program& plain) {
  const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
  const Bytes largest =
      tier_use(place(keep_resident(plain, kDevicePair, kUnlimited)), Tier::device).peak_bytes;
  return {smallest,
          smallest + kBufferAlignment,
          smallest + (largest - smallest) / 4,
          (smallest + largest) / 2,
          largest,
          kUnlimited};
}

Bytes traffic(const Program& program) {
  return moved_bytes(program, Operation::copy_to_device) + moved_bytes(program, Operation::copy_to_host);
}

int count(const Program& program, Operation operation) {
  int n = 0;
  for (const Instruction& instruction : program.instructions) n += instruction.operation == operation ? 1 : 0;
  return n;
}

/// Gives options of ranks that send rows of the embedding's gradient.
std::vector<StrategyOptions> sparse_options() {
  std::vector<StrategyOptions> options;
  for (const Mesh& mesh : {Mesh{.shard = 3}, Mesh{.replicate = 2, .shard = 2}, Mesh{.replicate = 3}}) {
    for (const int stage : {1, 3}) {
      for (const DType reduce : {DType::fp32, DType::bf16}) {
        for (const bool pinned : {false, true}) {
          const Order order = pinned ? Order::microbatch_major : Order::layer_major;
          options.push_back({.order = order,
                             .microbatches = 2,
                             .units_on_device = pinned ? 1U : 0U,
                             .clips = stage == 3,
                             .pins = {.gradients = pinned},
                             .mesh = mesh,
                             .zero_stage = stage,
                             .reduce_dtype = reduce});
        }
      }
    }
  }
  return with_late_updates(std::move(options));
}

void expect_the_same_meaning(const Program& plain) {
  const auto expected = run_in_order(plain, 2);
  for (const Bytes budget : budgets(plain)) {
    const Program resident = keep_resident(plain, kDevicePair, budget);
    EXPECT_EQ(run_in_order(resident, 2), expected);
    EXPECT_EQ(run_in_order(prefetch(resident, kDevicePair, budget), 2), expected);
  }
}

void expect_the_same_result_of_any_interleaving(const Program& plain) {
  const auto expected = run_in_order(plain, 3);
  for (const Bytes budget : budgets(plain)) {
    const Program placed = place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
    verify(placed, kNoLimits);
    for (std::uint32_t seed = 0; seed < 3; ++seed) EXPECT_EQ(run_in_random_order(placed, 3, seed), expected);
  }
}

// Invariant: Placement changes no result.
TEST(PassesLongTest, KeepTheMeaningOfTheProgramAtEveryBudget) {
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(3, tied);
    for (const StrategyOptions& options : all_options())
      expect_the_same_meaning(lower_training(model, tiny_strategy(model, options)));
  }
}

// Invariant of placement: Overlap changes no result. Any interleaving that the dependencies allow gives the
// result of program order.
TEST(PassesLongTest, AnyInterleavingThatDependenciesAllowGivesTheSameResult) {
  const Model model = tiny_model();
  for (const StrategyOptions& options : all_options())
    expect_the_same_result_of_any_interleaving(lower_training(model, tiny_strategy(model, options)));
}

TEST(Passes, KeepTheMeaningOfProgramsThatSendRows) {
  const Model model = tiny_model(2, false, 1000);
  for (const StrategyOptions& options : sparse_options()) {
    const Program plain = lower_training(model, tiny_strategy(model, options));
    ASSERT_GT(count(plain, Operation::sum_rows), 0);
    expect_the_same_meaning(plain);
    expect_the_same_result_of_any_interleaving(plain);
  }
}

TEST(Lowering, GivesBothOrdersTheSameMeaning) {
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(3, tied);
    StrategyOptions options;
    const auto layer_major = run_in_order(lower_training(model, tiny_strategy(model, options)), 2);
    options.order = Order::microbatch_major;
    EXPECT_EQ(run_in_order(lower_training(model, tiny_strategy(model, options)), 2), layer_major);
  }
}

/// Whatever lives from step to step is the same after the last one as if nobody had been late.
// Invariant: Late updates change no result.
TEST(Lowering, GivesLateUpdatesTheMeaningOfThoseAtTheStepsEnd) {
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(3, tied);
    for (StrategyOptions options : all_options()) {
      if (!options.updates_late) continue;
      const auto late = run_in_order(lower_training(model, tiny_strategy(model, options)), 3);
      options.updates_late = false;
      EXPECT_EQ(run_in_order(lower_training(model, tiny_strategy(model, options)), 3), late);
    }
  }
}

TEST(Lowering, FetchesRightBeforeUseAndReleasesRightAfter) {
  const Model model = tiny_model(1, false);
  const Program plain = lower_training(model, tiny_strategy(model, {.microbatches = 1}));
  const std::vector<Lifetime> live = lifetimes(plain);
  std::string around;
  for (std::size_t i = 0; i < plain.instructions.size(); ++i) {
    if (plain.instructions[i].operation != Operation::forward || plain.instructions[i].unit != 1) continue;
    for (std::size_t k = i - 2; k < i + 2; ++k) {
      const Instruction& instruction = plain.instructions[k];
      around += std::string(name_of(instruction.operation)) + ' ' +
                *plain
                     .buffer(instruction.operation == Operation::copy_to_host ? instruction.writes[0].buffer
                                                                              : instruction.reads[0].buffer)
                     .name +
                '\n';
    }
  }
  EXPECT_EQ(around,
            "copy_to_device block.0/parameter\n"
            "copy_to_device block.0/input[mb=0]\n"
            "forward block.0/parameter\n"
            "copy_to_host head/input[mb=0]\n");
  for (std::size_t b = 0; b < plain.buffers.size(); ++b) {
    if (plain.buffers[b].tier == Tier::device && !plain.buffers[b].persistent) {
      EXPECT_LE(live[b].last - live[b].first, 8) << *plain.buffers[b].name;
    }
  }
}

/// The cpu lane's instructions, "update head".
std::string updates(const Program& program) {
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.lane != Lane::cpu && instruction.operation != Operation::update) continue;
    text += name_of(instruction.operation);
    if (instruction.unit >= 0) text += ' ' + program.units[static_cast<std::size_t>(instruction.unit)];
    text += '\n';
  }
  return text;
}

/// Names of what is copied, with "<" to the host and ">" to the device.
std::set<std::string> copies(const Program& program) {
  std::set<std::string> names;
  for (const Instruction& instruction : program.instructions) {
    if (!kDevicePair.is_transfer(instruction)) continue;
    const bool to_device = instruction.operation == Operation::copy_to_device;
    names.insert((to_device ? ">" : "<") + *program.buffer(instruction.reads[0].buffer).name);
  }
  return names;
}

TEST(Lowering, CopiesOfWhatIsPinnedOnlyWhatTheHostMakesAndNeeds) {
  const Model model = tiny_model(1, false);
  const auto copied = [&](DType precision, DevicePins pins) {
    return copies(lower_training(
        model, tiny_strategy(model, {.precision = precision, .microbatches = 1, .pins = pins})));
  };
  const std::set<std::string> messages = {">tokens[mb=0]", ">targets[mb=0]", "<losses[mb=0]"};
  const auto with = [&](std::set<std::string> names) {
    names.insert(messages.begin(), messages.end());
    return names;
  };
  const std::set<std::string> updated = {">embedding/parameter", ">block.0/parameter", ">head/parameter"};
  std::set<std::string> low = with(updated), full = with(updated);
  for (const char* unit : {"embedding", "block.0", "head"}) {
    low.insert(std::string("<") + unit + "/cast_gradient");
    full.insert(std::string("<") + unit + "/gradient");
  }
  EXPECT_EQ(copied(DType::bf16, {true, true, true}), low);
  EXPECT_EQ(copied(DType::fp32, {true, true, true}), full);
}

TEST(Lowering, UpdatesAfterTheNormOfAllGradientsWhereTheyAreClipped) {
  const Model model = tiny_model(1, false);
  EXPECT_EQ(updates(lower_training(model, tiny_strategy(model))),
            "sum_of_squares head\n"
            "sum_of_squares block.0\n"
            "sum_of_squares embedding\n"
            "sum_losses\n"
            "loss\n"
            "grad_norm\n"
            "update embedding\n"
            "update block.0\n"
            "update head\n");
}

TEST(Lowering, UpdatesUnitsOfTheHostAsTheirGradientsArriveWhereNothingIsClipped) {
  const Model model = tiny_model(1, false);
  EXPECT_EQ(updates(lower_training(model, tiny_strategy(model, {.units_on_device = 1, .clips = false}))),
            "sum_of_squares head\n"
            "step_scalars head\n"
            "update head\n"
            "sum_of_squares block.0\n"
            "step_scalars block.0\n"
            "update block.0\n"
            "sum_losses\n"
            "loss\n"
            "step_scalars embedding\n"
            "update embedding\n"
            "grad_norm\n");
}

TEST(Lowering, ScaledLossesAreUpdatedAfterTheNormEvenWithoutClipping) {
  const Model model = tiny_model(1, false);
  const Strategy strategy = tiny_strategy(model, {.precision = DType::fp16, .clips = false});
  EXPECT_EQ(updates(lower_training(model, strategy)), updates(lower_training(model, tiny_strategy(model))));
}

TEST(Lowering, ValidationAgreesWithTrainingOnPersistentBuffers) {
  const Model model = tiny_model();
  Strategy strategy = tiny_strategy(model, {.units_on_device = 2});
  strategy.validation_microbatches = 2;
  const Program training = place(keep_resident(lower_training(model, strategy), kDevicePair, kUnlimited));
  const Program validation = place(keep_resident(lower_validation(model, strategy), kDevicePair, kUnlimited));
  for (std::size_t b = 0; training.buffers[b].persistent; ++b) {
    Buffer trained = training.buffers[b];
    trained.renewed = false;
    EXPECT_EQ(trained, validation.buffers[b]);
  }
  EXPECT_EQ(count(validation, Operation::backward), 0);
}

TEST(Residency, MovesNothingThatFitsForGood) {
  const Model model = tiny_model();
  const Strategy strategy = tiny_strategy(model, {.units_on_device = 5});
  const Program resident = keep_resident(lower_training(model, strategy), kDevicePair, kUnlimited);
  for (const Instruction& instruction : resident.instructions) {
    if (instruction.lane != Lane::h2d && instruction.lane != Lane::d2h) continue;
    EXPECT_EQ(resident.buffer(instruction.reads[0].buffer).kind, BufferKind::communication)
        << print(resident, instruction);
  }
}

TEST(Residency, FetchesEachParameterOncePerStepWhereAllFitAndTwiceWhereOnlyOneUnitDoes) {
  const Model model = tiny_model(6, false);
  const Program plain = lower_training(model, tiny_strategy(model, {.microbatches = 4}));
  const auto fetches = [&](Bytes budget) {
    const Program program = keep_resident(plain, kDevicePair, budget);
    int parameters = 0;
    for (const Instruction& instruction : program.instructions) {
      parameters += instruction.operation == Operation::copy_to_device &&
                            program.buffer(instruction.reads[0].buffer).kind == BufferKind::parameter
                        ? 1
                        : 0;
    }
    return parameters;
  };
  // Embedding and head once each: the embedding's backward needs no parameter, and the head's forward is in
  // its backward.
  EXPECT_EQ(fetches(kUnlimited), 8);
  // Forward and backward once each, whatever the number of microbatches: a unit's parameter stays while they
  // pass.
  const Bytes block = model.units[1].elements * 2;
  const int tight = fetches(near_bytes(plain, kDevicePair).smallest + block);
  EXPECT_LE(tight, 2 + 2 * 6);
  EXPECT_GT(tight, 8);
}

TEST(Residency, NeverMovesMoreWithMoreMemory) {
  const Model model = tiny_model(5);
  for (const StrategyOptions& options : free_options()) {
    const Program plain = lower_training(model, tiny_strategy(model, options));
    Bytes before = kUnlimited;
    for (const Bytes budget : budgets(plain)) {
      const Bytes now = traffic(keep_resident(plain, kDevicePair, budget));
      EXPECT_LE(now, before);
      before = now;
    }
  }
}

TEST(Prefetch, StartsAFetchBeforeTheComputeThatPrecedesItsUse) {
  const Model model = tiny_model(6, false);
  const Program plain = lower_training(model, tiny_strategy(model, {.microbatches = 2}));
  const Bytes budget = near_bytes(plain, kDevicePair).smallest +
                       2 * align_up(model.units[1].elements * 2, kBufferAlignment) + 8 * kBufferAlignment;
  const Program program = prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
  std::vector<bool> fetched(model.units.size(), false);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::copy_to_device &&
        program.buffer(instruction.writes[0].buffer).kind == BufferKind::parameter) {
      fetched[static_cast<std::size_t>(instruction.unit)] = true;
    }
    // When a block's forward begins, the next unit's parameter is on its way already.
    if (instruction.operation == Operation::forward && instruction.microbatch == 0) {
      EXPECT_TRUE(fetched[static_cast<std::size_t>(instruction.unit) + 1]) << print(program, instruction);
    }
  }
}

TEST(PrefetchLongTest, NeverRaisesLiveBytesOverTheBudget) {
  const Model model = tiny_model(5);
  for (const StrategyOptions& options : all_options()) {
    const Program plain = lower_training(model, tiny_strategy(model, options));
    for (const Bytes budget : budgets(plain)) {
      EXPECT_LE(tier_use(place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget)),
                         Tier::device)
                    .live_bytes,
                budget);
    }
  }
}

TEST(Memory, PlacesTheSmallestProgramWithoutFragmentation) {
  const Model model = tiny_model(5);
  for (const StrategyOptions& options : all_options()) {
    const Program plain = lower_training(model, tiny_strategy(model, options));
    EXPECT_EQ(tier_use(place(plain), Tier::device).peak_bytes, near_bytes(plain, kDevicePair).smallest);
  }
}

/// Everything but what is renewed lives as before.
Program without_renewed(Program program) {
  for (Buffer& buffer : program.buffers) buffer.renewed = false;
  return program;
}

/// When all gradients are there, and no unit is updated.
Bytes live_at_norm(const Program& program, Tier tier) {
  const auto norm = static_cast<std::int32_t>(
      std::ranges::find(program.instructions, Operation::grad_norm, &Instruction::operation) -
      program.instructions.begin());
  const std::vector<Lifetime> live = lifetimes(program);
  Bytes bytes = 0;
  for (std::size_t b = 0; b < live.size(); ++b) {
    if (program.buffers[b].tier != tier) continue;
    live[b].for_each_stretch(static_cast<std::int32_t>(program.instructions.size()),
                             [&](std::int32_t first, std::int32_t last) {
                               if (first <= norm && norm <= last) bytes += program.buffers[b].bytes;
                             });
  }
  return bytes;
}

TEST(Memory, GivesPlacesOfParametersThatUpdatesMakeToGradients) {
  const Model model = tiny_model(16);
  for (const std::size_t units_on_device : {std::size_t{0}, model.units.size()}) {
    const Tier home = units_on_device == 0 ? Tier::host : Tier::device;
    const Strategy strategy = tiny_strategy(
        model, {.precision = DType::bf16, .microbatches = 1, .units_on_device = units_on_device});
    const Program plain = keep_resident(lower_training(model, strategy), kDevicePair, kUnlimited);
    Bytes parameters = 0;
    for (const Buffer& buffer : plain.buffers) {
      if (!buffer.renewed) continue;
      EXPECT_EQ(buffer.kind, BufferKind::parameter);
      EXPECT_EQ(buffer.tier, home);
      parameters += buffer.bytes;
    }
    EXPECT_GT(parameters, 0);
    const Program kept = without_renewed(plain);
    EXPECT_EQ(live_at_norm(plain, home), live_at_norm(kept, home) - parameters);
    const Program placed = place(plain);
    EXPECT_NO_THROW(verify(placed, kNoLimits));
    EXPECT_LT(tier_use(placed, home).peak_bytes, tier_use(place(kept), home).peak_bytes);
  }
}

TEST(Memory, RenewsNothingThatAnUpdateReadsOrMakesInAnotherRound) {
  const Model model = tiny_model();
  const auto renewed = [&](const StrategyOptions& options) {
    return std::ranges::count_if(lower_training(model, tiny_strategy(model, options)).buffers,
                                 &Buffer::renewed);
  };
  EXPECT_GT(renewed({.precision = DType::bf16}), 0);
  EXPECT_EQ(renewed({.precision = DType::fp32}), 0);  // a parameter is its own master
  EXPECT_EQ(renewed({.precision = DType::bf16, .updates_late = true}), 0);
}

TEST(Memory, LetsTokensWaitForNoPlace) {
  Architecture a = tiny_model(6).architecture;
  a.hidden = 512;
  a.intermediate = 1408;
  const Model model = build_model(a);
  const Program placed = place(lower_training(model, tiny_strategy(model, {.precision = DType::bf16})));
  const std::vector<Lifetime> live = lifetimes(placed);
  int tokens = 0;
  for (const Instruction& instruction : placed.instructions) {
    if (instruction.operation != Operation::load_data) continue;
    for (const Operand& loaded : instruction.writes) {
      const Buffer& buffer = placed.buffer(loaded.buffer);
      ++tokens;
      for (std::size_t b = 0; b < placed.buffers.size(); ++b) {
        const Buffer& other = placed.buffers[b];
        if (static_cast<BufferId>(b) == loaded.buffer || other.tier != Tier::host || live[b].is_empty())
          continue;
        EXPECT_TRUE(other.offset + other.bytes <= buffer.offset ||
                    buffer.offset + buffer.bytes <= other.offset)
            << *buffer.name << ' ' << *other.name;
      }
    }
  }
  EXPECT_GT(tokens, 0);
}

TEST(Memory, KindsAddUpToTheLiveBytes) {
  const Model model = tiny_model();
  const Program placed =
      place(keep_resident(lower_training(model, tiny_strategy(model)), kDevicePair, kUnlimited));
  for (const Tier tier : kTiers) {
    const TierUse use = tier_use(placed, tier);
    Bytes sum = 0;
    for (const Bytes bytes : use.by_kind) sum += bytes;
    EXPECT_EQ(sum, use.live_bytes);
    EXPECT_LE(use.live_bytes, use.peak_bytes);
  }
}

Program placed_tiny_program() {
  const Model model = tiny_model(1);
  return place(lower_training(model, tiny_strategy(model, {.microbatches = 1})));
}

TEST(Verify, RefusesAReadOfSomethingNeverWritten) {
  Program program = placed_tiny_program();
  program.instructions.erase(program.instructions.begin());  // the tokens were never loaded
  EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
}

TEST(Verify, RefusesAReadInARoundInWhichNothingWasWritten) {
  Program program = placed_tiny_program();
  EXPECT_NO_THROW(verify(program, kNoLimits));
  // Then the first step's tokens are of nobody.
  program.instructions.front().serves = Serves::step_before;
  EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
}

TEST(Verify, RefusesLiveBuffersThatOverlap) {
  Program program = placed_tiny_program();
  for (Buffer& buffer : program.buffers) {
    if (buffer.tier == Tier::device) buffer.offset = 0;
  }
  EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
}

TEST(Verify, RefusesAnOperandThatIsLargerThanItsBuffer) {
  Program program = placed_tiny_program();
  Operand& operand = program.instructions.front().writes.front();
  operand.elements = program.buffer(operand.buffer).bytes / size_of(operand.type) + 1;
  EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
}

TEST(Verify, RefusesATransferWhoseEndsDiffer) {
  const Program placed = placed_tiny_program();
  const auto transfer = std::ranges::find_if(
      placed.instructions, [](const Instruction& instruction) { return is_transfer(instruction.operation); });
  for (const bool changes_type : {true, false}) {
    Program program = placed;
    Operand& source =
        program.instructions[static_cast<std::size_t>(transfer - placed.instructions.begin())].reads.front();
    if (changes_type)
      source.type = ElementType::low_half;
    else
      --source.elements;
    EXPECT_THROW(verify(program, kNoLimits), std::logic_error);
  }
}

TEST(Verify, RefusesAPlaceOutsideTheBudget) {
  const Program program = placed_tiny_program();
  const Bytes peak = tier_use(program, Tier::device).peak_bytes;
  EXPECT_NO_THROW(verify(program, {peak, kUnlimited, kUnlimited}));
  EXPECT_THROW(verify(program, {peak - 1, kUnlimited, kUnlimited}), std::logic_error);
}

TEST(Dependencies, FindAMissingOneByInterleaving) {
  // The symbolic machine must be able to fail: without its waits the same program gives other results.
  const Model model = tiny_model();
  const Program plain = lower_training(model, tiny_strategy(model));
  const Program placed = place(keep_resident(plain, kDevicePair, kUnlimited));
  Program apart = placed;
  Bytes end = 0;  // separate places hide write-after-read conflicts but not read-after-write
  for (Buffer& buffer : apart.buffers) buffer.offset = std::exchange(end, end + buffer.bytes);
  EXPECT_EQ(run_in_random_order(apart, 2, 1), run_in_order(plain, 2));
  Program scrambled = placed;
  for (Instruction& instruction : scrambled.instructions) instruction.reads.clear();
  EXPECT_NE(run_in_order(scrambled, 2), run_in_order(plain, 2));
}

TEST(Dependencies, ReachAcrossStepsAndNeverWaitForTheirOwnLane) {
  const Program placed = placed_tiny_program();
  const Dependencies dependencies = find_dependencies(placed);
  bool crosses_steps = false;
  for (std::size_t i = 0; i < placed.instructions.size(); ++i) {
    EXPECT_EQ(dependencies.waits[i][placed.instructions[i].lane].position, -1);
    for (const LanePosition& wait : dependencies.waits[i])
      crosses_steps |= wait.position >= 0 && wait.previous_step;
  }
  EXPECT_TRUE(crosses_steps);  // the first fetch of a parameter waits for the update of the step before
}

/// Without a norm over all units each is updated as soon as its gradient is on the host.
TEST(Passes, LetWriteBacksSinkWithTheUpdatesThatWaitForThem) {
  const Model model = tiny_model(3);
  const Program plain = lower_training(model, tiny_strategy(model, {.clips = false, .saves = true}));
  const Program program = prefetch(plain, kDevicePair, kUnlimited);
  std::size_t updates_under_computing = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& copy = program.instructions[i];
    if (copy.operation != Operation::copy_to_host ||
        program.buffer(copy.reads[0].buffer).kind != BufferKind::gradient)
      continue;
    std::size_t behind = i + 1;
    while (behind < program.instructions.size() && (program.instructions[behind].lane == Lane::cpu ||
                                                    program.instructions[behind].lane == Lane::save))
      ++behind;
    const auto is_update = [&](std::size_t at) {
      return program.instructions[at].operation == Operation::update;
    };
    bool updates = false;
    for (std::size_t at = i; at < behind; ++at) updates |= is_update(at);
    const Instruction& before = program.instructions[i - 1];
    if (updates && before.unit != copy.unit) ++updates_under_computing;
  }
  EXPECT_GE(updates_under_computing, 2);
}

}  // namespace
}  // namespace strata
