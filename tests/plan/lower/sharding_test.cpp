// What ranks hold, and what they send one another: the formulas of ZeRO (Rajbhandari et al. 2020), exactly.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::persistent_bytes;
using test::StrategyOptions;
using test::tiny_model;
using test::tiny_strategy;

StrategyOptions sharded(int stage, Mesh mesh = {.shard = 3}) {
  return {.microbatches = 2, .mesh = mesh, .zero_stage = stage, .reduce_dtype = DType::bf16};
}

/// Bytes that stay from step to step, by what they are of.
// Invariant of ranks (Sharding.*): Ranks hold and send what the ZeRO formulas give. Every call sends the
// bytes that were planned for it.
TEST(Sharding, GivesNeighboursTheShardsOfAReplica) {
  const Mesh mesh = {.replicate = 2, .shard = 3};
  const std::vector<std::int64_t> shards = {0, 1, 2, 0, 1, 2}, replicas = {0, 0, 0, 1, 1, 1};
  for (std::int64_t rank = 0; rank < mesh.data(); ++rank) {
    EXPECT_EQ(mesh.shard_rank(rank), shards[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(mesh.replica(rank), replicas[static_cast<std::size_t>(rank)]);
  }
}

TEST(Sharding, CutsAUnitIntoEqualShardsThatCoverItOnce) {
  for (const std::int64_t elements : {256, 1024, 25600}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 7, 8}) {
      const Unit unit = {.name = "", .tensors = {}, .elements = elements};
      const Mesh mesh = {.shard = ranks};
      std::int64_t next = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const FlatRange range = shard_of(unit, mesh, rank);
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, mesh.shard_elements(elements));
        next = std::max(next, range.end());
      }
      EXPECT_EQ(next, elements);
      EXPECT_LT(mesh.gathered_elements(elements), elements + ranks * Mesh::kShardAlignment);
    }
  }
}

TEST(Sharding, KeepsWhatTheFormulasOfZeroSay) {
  const Model model = tiny_model(2, false);
  for (const int stage : {1, 2, 3}) {
    const Strategy strategy = tiny_strategy(model, sharded(stage));
    Bytes parameters = 0, state = 0;
    for (const Unit& unit : model.units) {
      const std::int64_t shard = strategy.mesh.shard_elements(unit.elements);
      const std::int64_t held = stage == 3 ? shard : strategy.mesh.gathered_elements(unit.elements);
      parameters += align_up(2 * held, kBufferAlignment);
      state += 3 * align_up(4 * shard, kBufferAlignment);
    }
    const Program program = lower_training(model, strategy);
    EXPECT_EQ(persistent_bytes(program, BufferKind::parameter), parameters);
    EXPECT_EQ(persistent_bytes(program, BufferKind::optimizer_state), state);
  }
}

TEST(Sharding, InStageOneKeepsWholeGradientsToTheEndAndInStageTwoShards) {
  const Model model = tiny_model(4, false);
  const auto largest_gradients = [&](int stage) {
    Strategy strategy = tiny_strategy(model, sharded(stage));
    strategy.state.assign(model.units.size(), Tier::device);
    const Program program = place(keep_resident(lower_training(model, strategy), kDevicePair, kUnlimited));
    const std::vector<Lifetime> live = lifetimes(program);
    Bytes largest = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.instructions.size()); ++i) {
      Bytes bytes = 0;
      for (std::size_t b = 0; b < live.size(); ++b) {
        const bool counts =
            program.buffers[b].kind == BufferKind::gradient && live[b].first <= i && i <= live[b].last;
        if (counts && program.buffers[b].tier == Tier::device) bytes += program.buffers[b].bytes;
      }
      largest = std::max(largest, bytes);
    }
    return largest;
  };
  Bytes whole = 0, shards = 0, largest_unit = 0;
  for (const Unit& unit : model.units) {
    const Mesh mesh = {.shard = 3};
    whole += align_up(2 * mesh.gathered_elements(unit.elements), kBufferAlignment);
    shards += align_up(2 * mesh.shard_elements(unit.elements), kBufferAlignment);
    largest_unit =
        std::max(largest_unit, align_up(6 * mesh.gathered_elements(unit.elements), kBufferAlignment));
  }
  EXPECT_GE(largest_gradients(1), whole);
  EXPECT_LE(largest_gradients(2), shards + largest_unit + kBufferAlignment);
}

TEST(Sharding, SendsWhatTheFormulasSay) {
  const Model model = tiny_model(3, false);
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const int stage : {1, 2, 3}) {
      const Strategy strategy = tiny_strategy(model, sharded(stage, {.shard = ranks}));
      const Traffic traffic = traffic_of(lower_training(model, strategy), When::every_step);
      Bytes all_gather = 0, reduce_scatter = 0;
      for (const Unit& unit : model.units) {
        const Bytes part = 2 * strategy.mesh.shard_elements(unit.elements);
        // Stage 3 gathers for the forward and for the backward pass, whatever the number of microbatches; the
        // head has one pass of both and the embedding's backward does not read it. The others gather what
        // they have updated.
        const bool has_two_passes = stage == 3 && &unit != &model.embedding() && &unit != &model.head();
        all_gather += (has_two_passes ? 2 : 1) * (ranks - 1) * part;
        reduce_scatter += (ranks - 1) * part;
      }
      EXPECT_EQ(traffic[Link::all_gather], all_gather);
      EXPECT_EQ(traffic[Link::reduce_scatter], reduce_scatter);
    }
  }
}

TEST(Sharding, SendsRowsOfTheEmbeddingsGradientInPlaceOfAllOfIt) {
  const Model model = tiny_model(2, false, 1000);
  for (const Mesh& mesh : {Mesh{.shard = 3}, Mesh{.replicate = 2, .shard = 2}, Mesh{.replicate = 4}}) {
    const Strategy strategy = tiny_strategy(model, sharded(2, mesh));
    const std::int64_t rows = 2 * 2 * 8;  // microbatches of sequences of tokens
    EXPECT_EQ(sent_rows(model, strategy, 0), rows);
    Bytes gathered = 0;
    for (const Instruction& instruction : lower_training(model, strategy).instructions) {
      if (instruction.unit != 0) continue;
      EXPECT_NE(instruction.operation, Operation::reduce_scatter);
      if (instruction.operation == Operation::all_gather && instruction.reads[0].role != Role::source)
        gathered += instruction.exchange.sent;
    }
    EXPECT_EQ(gathered, (mesh.reducing() - 1) * rows * (4 + 2 * model.architecture.hidden));
  }
}

TEST(Sharding, SendsAllOfTheEmbeddingsGradientWhereRowsAreMore) {
  const auto rows = [](std::int64_t vocabulary, bool tied, const Mesh& mesh) {
    const Model model = tiny_model(2, tied, vocabulary);
    return sent_rows(model, tiny_strategy(model, sharded(3, mesh)), 0);
  };
  EXPECT_EQ(rows(1000, true, {.shard = 3}), 0);  // the head's gradient has values everywhere
  EXPECT_EQ(rows(1000, false, {}), 0);
  // 32 rows of 36 bytes against a third of the table, or all four ranks' against all of it.
  EXPECT_EQ(rows(96, false, {.shard = 3}), 0);
  EXPECT_EQ(rows(120, false, {.shard = 3}), 32);
  EXPECT_EQ(rows(128, false, {.replicate = 4}), 0);
  EXPECT_EQ(rows(144, false, {.replicate = 4}), 32);
}

/// With as many tokens as there may be: one microbatch more and all of the gradient would be sent.
TEST(Sharding, NeedsNoMoreMemoryForRowsThanForWholeGradients) {
  Architecture architecture = tiny_model(1, false, 2000).architecture;
  architecture.hidden = 128;
  const Model model = build_model(architecture);
  for (const Mesh& mesh : {Mesh{.shard = 3}, Mesh{.replicate = 2, .shard = 2}, Mesh{.replicate = 4}}) {
    for (const int stage : {1, 3}) {
      for (const DType precision : {DType::fp32, DType::bf16}) {
        for (const DType reduce : {DType::fp32, precision}) {
          StrategyOptions options = sharded(stage, mesh);
          options.precision = precision;
          options.reduce_dtype = reduce;
          Strategy strategy = tiny_strategy(model, options);
          while (sent_rows(model, strategy, 0) > 0) ++strategy.microbatches;
          --strategy.microbatches;
          ASSERT_GT(strategy.microbatches, 10);
          const auto smallest = [&] {
            return near_bytes(lower_training(model, strategy), kDevicePair).smallest;
          };
          const Bytes rows = smallest();
          strategy.sparse_gradients = false;
          EXPECT_LE(rows, smallest()) << mesh.shard << ' ' << mesh.replicate << ' ' << stage;
        }
      }
    }
  }
}

TEST(Sharding, ReplicasExchangeSumsOfShardsOnly) {
  const Model model = tiny_model(3, false);
  const Strategy strategy = tiny_strategy(model, sharded(3, {.replicate = 2, .shard = 2}));
  const auto replicate = static_cast<std::int32_t>(DataGroup::replicate);
  for (const Instruction& instruction : lower_training(model, strategy).instructions) {
    if (instruction.exchange.group != replicate) continue;
    const Unit& unit = model.units[static_cast<std::size_t>(instruction.unit)];
    EXPECT_EQ(instruction.operation, Operation::all_reduce);
    EXPECT_EQ(instruction.exchange.sent,
              2 * strategy.mesh.shard_elements(unit.elements));  // 2 · 1/2 of 2 bytes
  }
}

TEST(Sharding, GathersTheNextUnitBeforeTheComputeThatPrecedesItsUse) {
  const Model model = tiny_model(6, false);
  const Strategy strategy = tiny_strategy(model, sharded(3));
  const Program plain = lower_training(model, strategy);
  const Bytes whole =
      align_up(2 * strategy.mesh.gathered_elements(model.units[1].elements), kBufferAlignment);
  const Bytes budget = near_bytes(plain, kDevicePair).smallest + 3 * whole + 16 * kBufferAlignment;
  const Program program = prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
  std::vector<bool> gathered(model.units.size(), false);
  int ahead = 0, forwards = 0;
  for (const Instruction& instruction : program.instructions) {
    const auto unit = static_cast<std::size_t>(instruction.unit);
    if (instruction.operation == Operation::all_gather) gathered[unit] = true;
    if (instruction.operation != Operation::forward || instruction.microbatch != 0) continue;
    ++forwards;
    ahead += gathered[unit + 1] ? 1 : 0;
  }
  EXPECT_GE(ahead, forwards - 1);
}

/// The compute lane meets what waits for other ranks only behind the next unit's backward pass.
TEST(Sharding, ReducesAGradientBesideTheBackwardPassOfTheNextUnit) {
  const Model model = tiny_model(4, false);
  StrategyOptions options = sharded(3);
  options.reduce_dtype = DType::fp32;
  options.delays_reduction = true;
  std::int32_t latest_backward = -1;
  int casts = 0;
  for (const Instruction& instruction : lower_training(model, tiny_strategy(model, options)).instructions) {
    if (instruction.operation == Operation::backward) latest_backward = instruction.unit;
    if (instruction.operation != Operation::cast_gradient) continue;
    ++casts;
    EXPECT_EQ(latest_backward, std::max(0, instruction.unit - 1));
  }
  EXPECT_EQ(casts, static_cast<int>(model.units.size()));
}

TEST(Sharding, GathersNoMoreForGradientAccumulationWhereMemoryHasRoom) {
  const Model model = tiny_model(4, false);
  Bytes gathered = 0;
  for (const std::int64_t microbatches : {4, 32}) {
    RunConfig config = test::tiny_config({.microbatches = microbatches});
    config.plan.order.reset();
    config.parallel.data = 4;
    const ModelPlan plan = make_plan(config, model);
    if (gathered == 0) gathered = plan.training.moved(Link::all_gather);
    EXPECT_EQ(plan.training.moved(Link::all_gather), gathered);
  }
}

TEST(Sharding, DelaysReductionsWhereThatMovesNoMore) {
  const Model model = tiny_model(4, false);
  RunConfig config = test::tiny_config({.microbatches = 4});
  config.parallel.data = 2;
  EXPECT_TRUE(make_plan(config, model).strategy.delays_reduction);
  config.parallel.data = 1;
  EXPECT_FALSE(make_plan(config, model).strategy.delays_reduction);
}

}  // namespace
}  // namespace strata
