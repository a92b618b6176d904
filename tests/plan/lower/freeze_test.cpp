// What freezing leaves of a program: no gradient, state, update or exchange of a frozen tensor, no backward
// pass below all that is trained, and the meaning of the rest through all passes.
#include <gtest/gtest.h>

#include <set>

#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::persistent_bytes;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::SymbolicState;
using test::tiny_config;
using test::tiny_model;
using test::tiny_strategy;
using test::with_late_updates;
using test::with_pieces;

using Patterns = std::vector<std::string>;

/// The lower half, with the table that the head shares; parts of units; and all but the table.
const Patterns kLower = {"model.embed_tokens.*", "model.layers.0.*", "model.layers.1.*"};
const Patterns kParts = {"*.mlp.*", "*.k_proj.*", "model.norm.*"};
const Patterns kAllButTheTable = {"model.layers.*", "model.norm.*"};

Model frozen_model(const Patterns& freeze, bool tied = true) {
  return tiny_model(3, tied, 40, freeze);
}

std::set<std::string> buffers_of(const Program& program) {
  std::set<std::string> names;
  for (const Buffer& buffer : program.buffers) names.insert(*buffer.name);
  return names;
}

// Invariant (Freezing*.*): Freezing changes nothing else.
TEST(Freezing, LeavesUnitsWithoutABackwardPassAndWithoutAnUpdate) {
  const Model model = frozen_model({"model.embed_tokens.*", "model.layers.[01].*"});
  const Strategy strategy = tiny_strategy(model, {.microbatches = 1});
  std::vector<std::string> names;
  for (const Unit& unit : model.units) names.push_back(unit.name);
  EXPECT_EQ(print(training_schedule(strategy, unit_work(model, strategy)), names),
            "forward embedding mb=0\nforward block.0 mb=0\nforward block.1 mb=0\nforward block.2 mb=0\n"
            "backward head mb=0\nfinish_gradient head\nreduce_gradient head\n"
            "backward block.2 mb=0\nfinish_gradient block.2\nreduce_gradient block.2\n"
            "loss\ngradient_norm\nupdate block.2\nupdate head\n");
}

/// The gradient of what is trained below passes through, and the last one to be reduced is finished, too.
TEST(Freezing, KeepsBackwardPassesOfUnitsAboveATrainedOne) {
  const Strategy strategy =
      tiny_strategy(tiny_model(2), {.microbatches = 1, .mesh = {.shard = 2}, .delays_reduction = true});
  const std::vector<UnitWork> work = {{false, false}, {true, true}, {true, false}, {true, true}};
  EXPECT_EQ(
      print(training_schedule(strategy, work), {"a", "b", "c", "d"}),
      "forward a mb=0\nforward b mb=0\nforward c mb=0\n"
      "backward d mb=0\nbackward c mb=0\nfinish_gradient d\nreduce_gradient d\n"
      "backward b mb=0\nfinish_gradient b\nreduce_gradient b\nloss\ngradient_norm\nupdate b\nupdate d\n");
}

TEST(Freezing, LeavesNothingOfAFrozenUnitButItsParameter) {
  const Model model = frozen_model(kLower);
  for (const int stage : {1, 2, 3}) {
    const Program program =
        lower_training(model, tiny_strategy(model, {.mesh = {.shard = 2}, .zero_stage = stage}));
    const std::set<std::string> names = buffers_of(program);
    for (const char* part : {"gradient", "reduced_gradient", "cast_gradient", "master", "exp_avg",
                             "exp_avg_sq", "norm", "parameter", "parameter_shard", "input_gradient[mb=0]"})
      EXPECT_FALSE(names.contains(std::string("block.1/") + part)) << part;
    EXPECT_TRUE(names.contains("block.1/frozen"));
    EXPECT_EQ(names.contains("block.1/frozen_shard"), stage == 3);
    EXPECT_TRUE(names.contains("block.2/master"));
    for (const Instruction& instruction : program.instructions) {
      if (instruction.unit == 1 || instruction.unit == 2) {
        EXPECT_TRUE(instruction.operation == Operation::forward ||
                    instruction.operation == Operation::copy_to_device ||
                    instruction.operation == Operation::copy_to_host ||
                    (stage == 3 && instruction.operation == Operation::all_gather))
            << print(program, instruction);
      }
    }
  }
}

TEST(Freezing, KeepsFrozenTensorsOnceAndStateOfTheOthersOnly) {
  for (const Patterns& freeze : {kLower, kParts, kAllButTheTable}) {
    const Model model = frozen_model(freeze);
    for (const int stage : {1, 2, 3}) {
      const Mesh mesh = {.shard = 3};
      const Program program =
          lower_training(model, tiny_strategy(model, {.mesh = mesh, .zero_stage = stage}));
      Bytes parameters = 0, state = 0;
      for (const Unit& unit : model.units) {
        const bool is_shared = stage == 3;
        parameters += align_up(
            2 * (is_shared ? mesh.shard_elements(unit.elements) : mesh.gathered_elements(unit.elements)),
            kBufferAlignment);
        parameters +=
            align_up(2 * (is_shared ? mesh.shard_elements(unit.frozen_elements) : unit.frozen_elements),
                     kBufferAlignment);
        state += 3 * align_up(4 * mesh.shard_elements(unit.elements), kBufferAlignment);
      }
      EXPECT_EQ(persistent_bytes(program, BufferKind::parameter), parameters);
      EXPECT_EQ(persistent_bytes(program, BufferKind::optimizer_state), state);
    }
  }
}

/// A pass gathers those of a unit's two flat parameters that it reads.
TEST(Freezing, SendsNoGradientOfAFrozenTensor) {
  const Model model = frozen_model(kLower, false);
  const Mesh mesh = {.shard = 2};
  const Traffic traffic =
      traffic_of(lower_training(model, tiny_strategy(model, {.mesh = mesh})), When::every_step);
  Bytes reduced = 0, gathered = 0;
  for (const Unit& unit : model.units) {
    reduced += 4 * mesh.shard_elements(unit.elements);
    const bool has_two_passes = unit.name == "block.2";
    gathered += (has_two_passes ? 2 : 1) * 2 * mesh.shard_elements(unit.elements + unit.frozen_elements);
  }
  EXPECT_EQ(traffic[Link::reduce_scatter], reduced);
  EXPECT_EQ(traffic[Link::all_gather], gathered);
}

TEST(Freezing, MakesPlansSmallerInMemoryTrafficAndWork) {
  Architecture wide = tiny_model().architecture;  // so that pages do not count
  wide.hidden = 128;
  wide.intermediate = 256;
  wide.vocabulary = 500;
  const auto planned = [&](const Patterns& freeze, bool on_device) {
    RunConfig config = tiny_config();
    const Model model = build_model(wide, {.freeze = freeze});
    config.memory.optimizer_state = on_device ? TierChoice::device : TierChoice::host;
    return make_plan(config, model);
  };
  for (const Patterns& freeze : {kLower, kParts, kAllButTheTable}) {
    for (const bool on_device : {true, false}) {
      const ModelPlan all = planned({}, on_device), part = planned(freeze, on_device);
      EXPECT_LT(part.arena_bytes(Tier::device), all.arena_bytes(Tier::device));
      EXPECT_LT(part.flops.model, all.flops.model);
      EXPECT_LT(part.flops.executed, all.flops.executed);
      EXPECT_LT(part.updated_parameters, all.updated_parameters);
      EXPECT_EQ(part.parameters, all.parameters);
      EXPECT_LT(part.trained_parameters, all.trained_parameters);
      if (on_device) continue;
      EXPECT_LT(part.arena_bytes(Tier::host), all.arena_bytes(Tier::host));
      EXPECT_LT(part.training.moved(Link::d2h), all.training.moved(Link::d2h));
    }
  }
}

std::vector<StrategyOptions> freezing_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const DType precision : {DType::fp32, DType::bf16}) {
      for (const std::size_t on_device : {0, 2, 5}) {
        for (const bool clips : {true, false}) {
          const bool save = on_device == 2;
          options.push_back({order, precision, 2, save, on_device, clips, {}, /*saves=*/true});
          options.push_back(options.back());
          options.back().pins = {.parameters = true, .gradients = clips};
          options.push_back({order, precision, 2, save, on_device, clips, {}, /*saves=*/true});
          options.back().mesh = {.replicate = clips ? 2 : 1, .shard = 2};
          options.back().zero_stage = clips ? 3 : 2;
          options.back().delays_reduction = true;
        }
      }
    }
  }
  return with_pieces(with_late_updates(std::move(options)));
}

constexpr SaveSchedule kFreezingSaves = {.every = 2, .steps = 3};

void expect_freezing_keeps_the_meaning(const Program& plain) {
  const SymbolicState expected = run_in_order(plain, 3, kFreezingSaves);
  const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
  for (const Bytes budget : {smallest, smallest + 16 * KiB, kUnlimited}) {
    const Program placed = place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
    verify(placed, kNoLimits);
    EXPECT_EQ(run_in_order(placed, 3, kFreezingSaves), expected);
    for (std::uint32_t seed = 0; seed < 2; ++seed)
      EXPECT_EQ(run_in_random_order(placed, 3, seed, kFreezingSaves), expected);
  }
}

TEST(FreezingLongTest, KeepsItsMeaningThroughAllPasses) {
  for (const Patterns& freeze : {kLower, kParts, kAllButTheTable}) {
    const Model model = frozen_model(freeze);
    for (const StrategyOptions& options : freezing_options())
      expect_freezing_keeps_the_meaning(lower_training(model, tiny_strategy(model, options)));
  }
}

TEST(Freezing, KeepsItsMeaningOnDrives) {
  for (const Patterns& freeze : {kLower, kParts}) {
    const Model model = frozen_model(freeze);
    for (const StrategyOptions& options : freezing_options()) {
      const Program plain = lower_training(model, tiny_strategy(model, options));
      const Program spilled = spill(plain, find_spill_order(plain, {}).buffers);
      const SymbolicState expected = run_in_order(plain, 3, kFreezingSaves);
      const Bytes smallest = near_bytes(spilled, kHostPair).smallest;
      for (const Bytes budget : {smallest, smallest + 40 * KiB}) {
        const Program placed = place(prefetch(keep_resident(spilled, kHostPair, budget), kHostPair, budget));
        verify(placed, kNoLimits);
        EXPECT_EQ(run_in_random_order(placed, 3, 1, kFreezingSaves), expected);
      }
    }
  }
}

/// A frozen tensor is saved like all state, and as it was in the beginning.
TEST(Freezing, SavesWhatIsFrozenUnchanged) {
  for (const std::size_t on_device : {0, 5}) {
    const Model model = frozen_model(kLower);
    const Program program =
        lower_training(model, tiny_strategy(model, {.units_on_device = on_device, .saves = true}));
    const SymbolicState state = run_in_order(program, 2, {.every = 1, .steps = 2});
    EXPECT_EQ(state.at("frozen of block.0 at step 0"), state.at("block.0/frozen"));
    EXPECT_EQ(state.at("frozen of block.0 at step 1"), state.at("block.0/frozen"));
    EXPECT_FALSE(state.contains("master of block.0 at step 0"));
    EXPECT_FALSE(state.contains("frozen of block.2 at step 0"));
    EXPECT_TRUE(state.contains("master of block.2 at step 0"));
  }
}

TEST(Freezing, ValidatesWithWhatTrainingHas) {
  const Model model = frozen_model(kParts);
  const Strategy strategy = tiny_strategy(model, {.units_on_device = 2});
  Strategy validating = strategy;
  validating.validation_microbatches = 2;
  const Program training = lower_training(model, validating),
                validation = lower_validation(model, validating);
  EXPECT_EQ(training.state, validation.state);
}

}  // namespace
}  // namespace strata
