// What merging must keep: each model computes what it computes alone, whosever turn it is and whatever the
// passes make of the merged program.
#include "engine/plan/passes/merge.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "engine/plan/program/rounds.h"
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

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  std::size_t below(std::size_t count) { return engine_() % count; }
  bool flip() { return below(2) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937 engine_;
};

StrategyOptions any_options(Random& random) {
  StrategyOptions options = {.order = random.one_of({Order::layer_major, Order::microbatch_major}),
                             .precision = random.one_of({DType::fp32, DType::bf16, DType::fp16}),
                             .microbatches = random.one_of({1, 2, 3}),
                             .save = random.flip(),
                             .units_on_device = random.below(4),
                             .clips = random.flip(),
                             .saves = random.flip()};
  options.updates_late = random.flip() && (options.clips || options.precision == DType::fp16);
  options.divides_backward = random.below(4) == 0;
  if (random.flip()) options.piece_bytes = 2 * KiB;
  if (random.below(4) == 0) options.mesh = {.replicate = random.one_of({1, 2}), .shard = 3};
  if (random.below(4) == 0) options.pins.parameters = true;
  if (random.below(4) == 0) options.pins.gradients = true;
  return options;
}

Program any_program(Random& random) {
  const auto layers = random.one_of({1, 2, 3});
  std::vector<std::string> freeze;
  if (random.below(3) == 0) freeze = {"model.embed_tokens.*", "model.layers.0.*"};
  const Model model = tiny_model(layers, random.flip(), 40, freeze);
  return lower_training(model, tiny_strategy(model, any_options(random)));
}

/// Steps that need not begin or end where other models' do, and what they save.
Rounds::OfModel any_steps(Random& random) {
  const auto number = [&](std::size_t below) { return static_cast<std::int64_t>(random.below(below)); };
  Rounds::OfModel model = {.steps = {number(4), number(5)}};
  model.saves = {.every = number(4), .steps = model.steps.first + model.steps.count + number(2)};
  return model;
}

std::vector<std::int32_t> turns_of_all(const std::vector<ModelProgram>& models) {
  std::vector<std::int32_t> order;
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::size_t turns = models[m].plain == nullptr ? 0 : find_turns(*models[m].plain).size();
    order.insert(order.end(), turns, static_cast<std::int32_t>(m));
  }
  return order;
}

/// Each model's next turn, again and again.
std::vector<std::int32_t> in_rotation(std::vector<std::int32_t> step_after_step) {
  std::vector<std::pair<std::size_t, std::int32_t>> turns;
  std::vector<std::size_t> taken(8, 0);
  turns.reserve(step_after_step.size());
  for (const std::int32_t model : step_after_step)
    turns.emplace_back(taken[static_cast<std::size_t>(model)]++, model);
  std::ranges::sort(turns);
  std::ranges::transform(turns, step_after_step.begin(), [](const auto& turn) { return turn.second; });
  return step_after_step;
}

std::vector<std::int32_t> at_random(std::vector<std::int32_t> order, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::shuffle(order.begin(), order.end(), engine);
  return order;
}

/// A program as that of model `number` of several.
Program named(Program program, const std::string& name, std::size_t number) {
  for (Buffer& buffer : program.buffers) buffer.name = name + "/" + *buffer.name;
  for (std::string& unit : program.units) unit.insert(0, name + "/");
  for (Instruction& instruction : program.instructions) instruction.model = static_cast<std::int32_t>(number);
  return program;
}

/// Models of any kind, and a run of them.
struct Mix {
  std::vector<std::string> names;
  std::vector<Program> programs;
  Rounds rounds;
  SymbolicState alone;  ///< what each leaves and saves if it runs alone

  explicit Mix(std::uint32_t seed) {
    Random random(seed);
    const std::size_t count = 2 + random.below(3);
    names.reserve(count);
    programs.reserve(count);
    for (std::size_t m = 0; m < count; ++m) {
      names.push_back("m" + std::to_string(m));
      programs.push_back(any_program(random));
      rounds.models.push_back(any_steps(random));
    }
    for (std::size_t m = 0; m < count; ++m)
      alone.merge(run_in_order(named(programs[m], names[m], m), rounds));
    for (Program& program : programs) {
      if (rounds_behind(program) > 0 || random.flip()) continue;
      program = begin_round_with(program, random.below(find_turns(program).size()));
    }
  }

  std::vector<ModelProgram> models() const {
    std::vector<ModelProgram> models;
    for (std::size_t m = 0; m < programs.size(); ++m) models.push_back({names[m], &programs[m]});
    return models;
  }
};

/// Names of what is not as each model leaves it alone.
std::string wrong(const SymbolicState& left, const Mix& mix) {
  std::set<std::string> names;
  for (const auto& [name, value] : left) {
    const auto found = mix.alone.find(name);
    if (found == mix.alone.end() || found->second != value) names.insert(name);
  }
  for (const auto& [name, value] : mix.alone) {
    if (!left.contains(name)) names.insert(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Program on_device(const Program& plain, Bytes budget) {
  return prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
}

/// With a part of what can be on drives there, and little room on the host.
Program on_drives(const Program& program, std::size_t part, std::size_t parts) {
  const SpillOrder order = find_spill_order(program, {});
  const auto count = static_cast<std::ptrdiff_t>(order.buffers.size() * part / parts);
  const Program plain = spill(program, {order.buffers.begin(), order.buffers.begin() + count});
  const Bytes budget = near_bytes(plain, kHostPair).smallest + (part == parts ? 0 : 16 * KiB);
  return prefetch(keep_resident(plain, kHostPair, budget), kHostPair, budget);
}

constexpr std::uint32_t kMixes = 24;

// Invariant of several models (Turns.*): Turns leave the device to others. Between the turns of a model only
// what its plan keeps there stays on the device. Several models need no more of the device at once than the
// hungriest model.
TEST(Turns, AreTheSameWhereverARoundBegins) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Program plain = any_program(random);
    if (rounds_behind(plain) > 0) continue;
    const std::size_t count = find_turns(plain).size();
    for (std::size_t turn = 0; turn < count; ++turn)
      EXPECT_EQ(find_turns(begin_round_with(plain, turn)).size(), count) << turn;
  }
}

// Invariant (Merge.*): Several models are their runs alone.
TEST(Merge, LeavesEachModelWhatItComputesAlone) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    const Mix mix(seed);
    const std::vector<std::int32_t> order = turns_of_all(mix.models());
    for (const auto& turns : {order, in_rotation(order), at_random(order, seed)}) {
      const Program merged = merge(mix.models(), turns);
      verify(place(merged), kNoLimits);
      EXPECT_EQ(wrong(run_in_order(merged, mix.rounds), mix), "");
    }
  }
}

TEST(Merge, LeavesItThatWithinAnyBudgetInAnyInterleaving) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    const Mix mix(seed);
    const std::vector<std::int32_t> order = turns_of_all(mix.models());
    const Program merged = merge(mix.models(), seed % 2 == 0 ? in_rotation(order) : at_random(order, seed));
    const Bytes smallest = near_bytes(merged, kDevicePair).smallest;
    for (const Bytes budget : {smallest, smallest + 16 * KiB, smallest + 64 * KiB, kUnlimited}) {
      const Program resident = on_device(merged, budget);
      for (const Program& program : {resident, on_drives(resident, 1, 2), on_drives(resident, 2, 2)}) {
        const Program placed = place(program);
        verify(placed, kNoLimits);
        EXPECT_LE(tier_use(placed, Tier::device).live_bytes, budget);
        EXPECT_EQ(wrong(run_in_order(program, mix.rounds), mix), "");
        for (const std::uint32_t interleaving : {2 * seed, 2 * seed + 1})
          EXPECT_EQ(wrong(run_in_random_order(placed, mix.rounds, interleaving), mix), "");
      }
    }
  }
}

// Invariant: Turns leave the device to others.
TEST(Merge, NeedsNoMoreOfTheDeviceAtOnceThanItsHungriestModel) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    Mix mix(seed);
    Bytes staying = 0, hungriest = 0;
    for (Program& program : mix.programs) {
      Bytes own = 0;
      for (Buffer& buffer : program.buffers) {
        buffer.renewed = false;
        const bool stays = buffer.tier == Tier::device && (buffer.persistent || buffer.apart);
        if (stays) own += buffer.bytes;
      }
      staying += own;
      const bool is_carried = std::ranges::any_of(program.buffers, [](const Buffer& buffer) {
        return buffer.tier == Tier::device && buffer.carried;
      });
      if (is_carried) staying += near_bytes(program, kDevicePair).smallest;
      hungriest = std::max(hungriest, near_bytes(program, kDevicePair).smallest - own);
    }
    const std::vector<std::int32_t> order = turns_of_all(mix.models());
    for (const auto& turns : {order, in_rotation(order), at_random(order, seed)})
      EXPECT_LE(near_bytes(merge(mix.models(), turns), kDevicePair).smallest, staying + hungriest);
  }
}

/// Bytes of the device, but for what is there throughout, that live from instruction `i - 1` to `i`.
Bytes live_between(const Program& program, const std::vector<Lifetime>& live, std::int32_t i) {
  Bytes bytes = 0;
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != Tier::device || buffer.persistent || buffer.apart) continue;
    live[b].for_each_stretch(static_cast<std::int32_t>(program.instructions.size()),
                             [&](std::int32_t first, std::int32_t last) {
                               if (first < i && i <= last) bytes += buffer.bytes;
                             });
  }
  return bytes;
}

TEST(Turns, CoverTheProgramAndLeaveTheDeviceEmpty) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    for (const Program& program : Mix(seed).programs) {
      const std::vector<Lifetime> live = lifetimes(program);
      std::int32_t covered = 0;
      for (const Turn& turn : find_turns(program)) {
        EXPECT_EQ(turn.first, covered);
        EXPECT_LT(turn.first, turn.last);
        EXPECT_EQ(live_between(program, live, turn.first), 0);
        covered = turn.last;
      }
      EXPECT_EQ(covered, std::ssize(program.instructions));
    }
  }
}

/// A pass of a unit is a turn, unless a gradient or an activation that stays on the device holds it to the
/// next.
TEST(Turns, AreAsShortAsAPassOfAUnit) {
  const Model model = tiny_model(3, false);
  const Program program = lower_training(model, tiny_strategy(model, {.microbatches = 2}));
  for (const Turn& turn : find_turns(program)) {
    std::int64_t passes = 0;
    for (std::int32_t i = turn.first; i < turn.last; ++i)
      passes += program.instructions[static_cast<std::size_t>(i)].operation == Operation::forward;
    EXPECT_LE(passes, 1);
  }
}

TEST(Turns, OfNothingAreNone) {
  EXPECT_TRUE(find_turns({}).empty());
}

/// With buffers in the order in which state and instructions name them first.
Program canonical(const Program& program) {
  Program result = program.outline();
  result.state = program.state;
  result.instructions = program.instructions;
  std::vector<BufferId> numbers(program.buffers.size(), -1);
  const auto number = [&](BufferId id) {
    BufferId& own = numbers[static_cast<std::size_t>(id)];
    if (own < 0) own = result.add(program.buffer(id));
    return own;
  };
  for (StateEntry& place : result.state) place.buffer = number(place.buffer);
  for (Instruction& instruction : result.instructions) {
    for (OperandList* operands : {&instruction.reads, &instruction.writes}) {
      for (Operand& operand : *operands) operand.buffer = number(operand.buffer);
    }
  }
  return result;
}

TEST(Merge, OfOneModelIsItsProgram) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    const Program own = std::move(Mix(seed).programs.front());
    const std::vector<ModelProgram> models = {{"", &own}};
    const Program merged = merge(models, turns_of_all(models));
    EXPECT_EQ(canonical(merged).instructions, canonical(own).instructions);
    EXPECT_TRUE(canonical(part_of(merged, models, 0)) == canonical(own));
  }
}

TEST(Merge, HasEachModelAsAPartWithItsPlaces) {
  for (std::uint32_t seed = 0; seed < kMixes; ++seed) {
    SCOPED_TRACE(seed);
    const Mix mix(seed);
    const std::vector<ModelProgram> models = mix.models();
    const Program merged = merge(models, at_random(turns_of_all(models), seed));
    for (std::size_t m = 0; m < models.size(); ++m) {
      Program expected = canonical(named(mix.programs[m], mix.names[m], 0));
      for (Buffer& buffer : expected.buffers) buffer.renewed = false;
      Program part = canonical(part_of(merged, models, m));
      EXPECT_EQ(part.buffers, expected.buffers);
      EXPECT_EQ(part.state, expected.state);
      expected.groups = part.groups;  // which are those of all models
      for (std::size_t i = 0; i < expected.instructions.size(); ++i) {
        const Exchange& own = mix.programs[m].instructions[i].exchange;
        Exchange& merged_exchange = part.instructions[i].exchange;
        if (own.group < 0) continue;
        EXPECT_EQ(merged.groups[static_cast<std::size_t>(merged_exchange.group)],
                  mix.programs[m].groups[static_cast<std::size_t>(own.group)]);
        merged_exchange.group = own.group;
      }
      EXPECT_EQ(part.instructions, expected.instructions);
    }
    const Program placed = place(on_drives(on_device(merged, kUnlimited), 1, 2));
    SymbolicState parts;
    for (std::size_t m = 0; m < models.size(); ++m) {
      Program part = part_of(placed, models, m);
      for (std::string& unit : part.units) unit.insert(0, mix.names[m] + "/");
      for (Instruction& instruction : part.instructions) instruction.model = static_cast<std::int32_t>(m);
      verify(part, kNoLimits);
      parts.merge(run_in_order(part, mix.rounds));
    }
    EXPECT_EQ(wrong(parts, mix), "");
  }
}

TEST(Merge, PassesOverModelsWithoutAProgram) {
  const Mix mix(1);
  std::vector<ModelProgram> models = mix.models();
  const ModelProgram present = models.front();
  models.assign({{"gone", nullptr}, present, {"gone too", nullptr}});
  const Program merged = merge(models, turns_of_all(models));
  EXPECT_EQ(models_in(merged), 2U);
  EXPECT_EQ(merged.units, named(mix.programs.front(), present.name, 1).units);
  Program expected = canonical(named(mix.programs.front(), present.name, 0));
  EXPECT_EQ(canonical(part_of(merged, models, 1)).instructions, expected.instructions);
}

TEST(Merge, RefusesAnOrderWithoutAllTurnsOrWithMore) {
  const Mix mix(2);
  std::vector<std::int32_t> order = turns_of_all(mix.models());
  order.push_back(order.back());
  EXPECT_THROW(merge(mix.models(), order), std::logic_error);
  order.resize(order.size() - 2);
  EXPECT_THROW(merge(mix.models(), order), std::logic_error);
}

}  // namespace
}  // namespace strata
