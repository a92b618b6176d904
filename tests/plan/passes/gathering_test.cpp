// What ranks have gathered stays while memory has room for it, and takes no room from anything else.
#include <gtest/gtest.h>

#include <limits>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
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

std::vector<StrategyOptions> gathering_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const Mesh& mesh : {Mesh{.shard = 2}, Mesh{.replicate = 2, .shard = 3}}) {
      for (const bool save : {false, true}) {
        for (const std::size_t on_device : {0, 2, 5}) {
          for (const bool clips : {true, false}) {
            options.push_back({.order = order,
                               .save = save,
                               .units_on_device = on_device,
                               .clips = clips,
                               .pins = {.parameters = save && clips},
                               .saves = save,
                               .mesh = mesh,
                               .delays_reduction = clips});
          }
        }
      }
    }
  }
  return with_late_updates(std::move(options));
}

/// Programs of training and validation, with a tied head and without.
std::vector<Program> gathering_programs() {
  std::vector<Program> programs;
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(3, tied);
    for (const StrategyOptions& options : gathering_options()) {
      Strategy strategy = tiny_strategy(model, options);
      strategy.validation_microbatches = 7;
      programs.push_back(lower_training(model, strategy));
      if (!options.save) programs.push_back(lower_validation(model, strategy));
    }
  }
  return programs;
}

Program within(const Program& plain, Bytes budget, Bytes with_gathered = kUnlimited) {
  return keep_resident(plain, kDevicePair, budget, with_gathered);
}

/// From the smallest possible to more than enough.
std::vector<Bytes> gathering_budgets(const Program& plain, Bytes steps = 8) {
  const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
  const Bytes largest = tier_use(place(within(plain, kUnlimited)), Tier::device).live_bytes;
  std::vector<Bytes> result;
  for (Bytes i = 0; i <= steps; ++i) result.push_back(smallest + (largest - smallest) * i / steps);
  result.push_back(2 * largest);
  return result;
}

/// By unit.
std::vector<int> gatherings(const Program& program) {
  std::vector<int> counts(program.units.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::all_gather) ++counts[static_cast<std::size_t>(instruction.unit)];
  }
  return counts;
}

Bytes sent(const Program& program) {
  return traffic_of(program, When::every_step)[Link::all_gather];
}

TEST(Gathering, IsDoneOncePerStepWhereAllHasRoom) {
  for (const Program& plain : gathering_programs()) {
    const Program program = within(plain, kUnlimited);
    EXPECT_EQ(gatherings(program), std::vector<int>(plain.units.size(), 1)) << print(program);
  }
}

/// A validation that passes the model again and again ends with the head and begins with the embedding: if
/// they share a parameter, that stays without any room.
TEST(Gathering, IsDoneForEachPassWhereNothingHasRoom) {
  for (const Program& plain : gathering_programs()) {
    const bool trains = std::ranges::any_of(plain.instructions, [](const Instruction& instruction) {
      return instruction.operation == Operation::backward;
    });
    if (trains) {
      EXPECT_EQ(gatherings(within(plain, kUnlimited, 0)), gatherings(plain));
    }
  }
}

TEST(Gathering, TakesRoomFromNothingElse) {
  for (const Program& plain : gathering_programs()) {
    for (const Bytes budget : gathering_budgets(plain)) {
      const Program with = within(plain, budget), without = within(plain, budget, 0);
      EXPECT_LE(moved_bytes(with, Operation::copy_to_device),
                moved_bytes(without, Operation::copy_to_device));
      EXPECT_EQ(moved_bytes(with, Operation::copy_to_host), moved_bytes(without, Operation::copy_to_host));
      EXPECT_LE(sent(with), sent(without));
      EXPECT_LE(tier_use(place(with), Tier::device).live_bytes, budget);
    }
  }
}

TEST(Gathering, NeverMovesMoreWithMoreMemory) {
  for (const Program& plain : gathering_programs()) {
    Bytes before = kUnlimited;
    for (const Bytes budget : gathering_budgets(plain)) {
      const Program program = within(plain, budget);
      const Bytes now = sent(program) + moved_bytes(program, Operation::copy_to_device) +
                        moved_bytes(program, Operation::copy_to_host);
      EXPECT_LE(now, before);
      before = now;
    }
  }
}

TEST(Gathering, KeepsTheMeaningAtEveryBudgetInAnyInterleaving) {
  for (const Program& plain : gathering_programs()) {
    const auto expected = run_in_order(plain, 2);
    for (const Bytes budget : gathering_budgets(plain, 3)) {
      const Program placed = place(prefetch(within(plain, budget), kDevicePair, budget));
      verify(placed, kNoLimits);
      EXPECT_EQ(run_in_order(placed, 2), expected);
      for (std::uint32_t seed = 0; seed < 2; ++seed)
        EXPECT_EQ(run_in_random_order(placed, 2, seed), expected);
    }
  }
}

/// Gatherings that begin only when what uses them waits for them.
int waited_for(const Program& program) {
  int count = 0;
  std::vector<bool> is_fresh(program.buffers.size(), false);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::all_gather)
      is_fresh[static_cast<std::size_t>(instruction.writes[0].buffer)] = true;
    if (instruction.operation != Operation::forward && instruction.operation != Operation::backward) continue;
    for (const Operand& operand : instruction.reads)
      count += is_fresh[static_cast<std::size_t>(operand.buffer)] ? 1 : 0;
    is_fresh.assign(program.buffers.size(), false);
  }
  return count;
}

TEST(Gathering, LeavesTheRoomInWhichTheNextOneRunsBesideComputing) {
  const Model model = tiny_model(8, false);
  const Program plain = lower_training(model, tiny_strategy(model, {.mesh = {.shard = 2}}));
  for (const Bytes budget : gathering_budgets(plain, 20)) {
    const auto waits = [&](Bytes with_gathered) {
      return waited_for(prefetch(within(plain, budget, with_gathered), kDevicePair, budget));
    };
    EXPECT_LE(waits(kUnlimited), waits(0)) << budget;
  }
}

/// Gathers, uses, writes the shard if `is_written`, gathers and uses again.
Program two_gatherings(bool is_written, bool lives_on_device) {
  Program program;
  program.units = {"unit"};
  const auto add = [&](std::string name, Tier tier, bool persistent) {
    return program.add({std::move(name), tier, BufferKind::parameter, kBufferAlignment, persistent, -1});
  };
  const auto perform = [&](Operation operation, Lane lane, OperandList reads, OperandList writes) {
    program.instructions.push_back({.operation = operation,
                                    .lane = lane,
                                    .unit = 0,
                                    .reads = std::move(reads),
                                    .writes = std::move(writes)});
  };
  const BufferId home = add("shard", lives_on_device ? Tier::device : Tier::host, true);
  const BufferId result = add("result", Tier::device, true);
  for (int pass = 0; pass < 2; ++pass) {
    const BufferId shard = lives_on_device ? home : add("shard", Tier::device, false);
    const BufferId whole = add("whole", Tier::device, false);
    if (!lives_on_device)
      perform(Operation::copy_to_device, Lane::h2d, {{Role::source, {}, home}},
              {{Role::destination, {}, shard}});
    perform(Operation::all_gather, Lane::comm, {{Role::source, {}, shard}}, {{Role::destination, {}, whole}});
    perform(Operation::forward, Lane::compute, {{Role::parameter, {}, whole}}, {{Role::output, {}, result}});
    if (is_written && pass == 0)
      perform(Operation::update, lives_on_device ? Lane::compute : Lane::cpu, {},
              {{Role::parameter, {}, home}});
  }
  return program;
}

TEST(Gathering, IsDoneAgainOfWhatHasBeenWritten) {
  for (const bool lives_on_device : {false, true}) {
    EXPECT_EQ(gatherings(within(two_gatherings(false, lives_on_device), kUnlimited)), std::vector{1});
    EXPECT_EQ(gatherings(within(two_gatherings(true, lives_on_device), kUnlimited)), std::vector{2});
  }
}

RunConfig config_of_ranks(std::int64_t ranks) {
  RunConfig config = test::tiny_config({.microbatches = 4});
  config.parallel.data = ranks;
  config.plan.order.reset();
  return config;
}

/// The plan for a device of that many bytes.
ModelPlan plan_with(RunConfig config, const Model& model, Bytes device) {
  config.memory.device = device;
  return make_plan(config, model);
}

TEST(GatheringOfAPlanLongTest, MakesNoStepLongerWithMoreMemoryAndSaysWhatItKeeps) {
  constexpr double kTolerance = 1.1;  // where everything has its place is luck

  for (const bool tied : {true, false}) {
    const Model model = tiny_model(6, tied);
    const RunConfig config = config_of_ranks(4);
    const ModelPlan ample = plan_with(config, model, kUnlimited);
    const Bytes largest = ample.arena_bytes(Tier::device);
    RunConfig smallest = config;
    smallest.memory.device = 1;
    const Bytes least = test::with_named_budgets(smallest, test::refusal(smallest, model)).memory.device;
    const MachineRates rates = planning_rates(config);
    double before = std::numeric_limits<double>::infinity();
    for (Bytes i = 0; i <= 6; ++i) {
      const Bytes budget = least + (largest - least) * i / 6;
      const ModelPlan plan = plan_with(config, model, budget);
      const Bytes now = plan.training.moved(Link::all_gather);
      const double seconds = simulated_seconds(plan.training.program, plan.training.dependencies, rates);
      EXPECT_LE(seconds, kTolerance * before) << i;
      EXPECT_LE(plan.arena_bytes(Tier::device), budget);
      const Bytes plain = sent(lower_training(model, plan.strategy));
      EXPECT_EQ(plan.kept_gathered.bytes, plain - now);
      EXPECT_EQ(plan.kept_gathered.units > 0, now < plain);
      before = seconds;
    }
    EXPECT_EQ(gatherings(ample.training.program), std::vector<int>(model.units.size(), 1));
  }
}

}  // namespace
}  // namespace strata
