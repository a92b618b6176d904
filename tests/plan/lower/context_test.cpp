// Ranks that share sequences: what goes round, and that computing need not wait for it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/model/split_context.h"
#include "engine/plan/program/rank_tasks.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

constexpr std::int64_t kLayers = 3, kKeyColumns = 8;

RunConfig context_config(std::int64_t ranks, Recompute recompute = Recompute::none,
                         DType precision = DType::bf16) {
  RunConfig config = tiny_config({.precision = precision, .microbatches = 3});
  config.data.sequence_length = 48;
  config.train.recompute = recompute;
  config.train.validate_every = 1;
  config.train.validation_batches = 5;
  config.parallel.context = ranks;
  config.plan.order = Order::layer_major;
  return config;
}

ModelPlan plan_of(const RunConfig& config) {
  return make_plan(config, split_context(tiny_model(kLayers), {config.parallel.context, 0}), {});
}

Bytes sent_round(const Program& program) {
  Bytes sum = 0;
  for (const Instruction& instruction : program.instructions)
    if (instruction.operation == Operation::ring_shift) sum += instruction.exchange.sent;
  return sum;
}

/// docs/explanation/layouts.md: of each layer and microbatch (c - 1) · 2 · tokens of a rank · key columns,
/// forward in the run's precision, and backward once more with as many gradients in fp32.
// Invariant (Context*.*): Shared sequences are one run.
TEST(ContextLongTest, SendsWhatTheFormulasSay) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const DType precision : {DType::bf16, DType::fp32}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        const RunConfig config = context_config(ranks, recompute, precision);
        const ModelPlan plan = plan_of(config);
        const Bytes values = (ranks - 1) * 2 * (2 * 48 / ranks) * kKeyColumns;
        const Bytes forward = values * size_of(precision), gradients = values * size_of(DType::fp32);
        const std::int64_t again = recompute == Recompute::full ? 1 : 0;
        EXPECT_EQ(sent_round(plan.training.program),
                  kLayers * config.microbatches() * ((2 + again) * forward + gradients));
        EXPECT_EQ(sent_round(plan.interludes.at(Interlude::validation).program), kLayers * 5 * forward);
        EXPECT_EQ(plan.training.moved(Link::send), sent_round(plan.training.program));
      }
    }
  }
}

/// One rank's program is that of all, and they meet.
TEST(Context, GivesAllRanksOneProgram) {
  const RunConfig config = context_config(4);
  std::vector<ModelPlan> plans;
  for (std::int64_t rank = 0; rank < 4; ++rank)
    plans.push_back(make_plan(config, split_context(tiny_model(kLayers), {4, rank}), {}));
  std::vector<RankProgram> ranks;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    EXPECT_EQ(plans[rank].training.program, plans[0].training.program);
    ranks.push_back(
        {static_cast<std::int64_t>(rank), &plans[rank].training.program, &plans[rank].training.dependencies});
  }
  verify_ranks(ranks);
}

/// Ranks that share sequences share out state: with two data ranks four have a quarter each.
TEST(Context, SharesOutStateAmongAllRanksWithOtherTokens) {
  RunConfig config = context_config(2);
  config.parallel.data = 2;
  config.train.batch = 12;
  const ModelPlan plan = plan_of(config);
  const Mesh& mesh = plan.strategy.mesh;
  EXPECT_EQ(mesh.shard, 4);
  EXPECT_EQ(mesh.data(), 2);
  EXPECT_EQ(mesh.ranks(), 4);
  EXPECT_EQ(mesh.data_rank(2), 1);
  EXPECT_EQ(mesh.context_rank(3), 1);
  EXPECT_EQ(plan.training.program.loss_terms, 12 * 48);
  config.parallel.zero_stage = 0;
  const Mesh whole = plan_of(config).strategy.mesh;
  EXPECT_EQ(whole.replicate, 4);
  EXPECT_EQ(whole.shard, 1);
}

/// While one step computes, the next one's keys come.
TEST(Context, ComputesWhileKeysTravel) {
  const ModelPlan plan = plan_of(context_config(4));
  const Program& program = plan.training.program;
  const Dependencies& dependencies = plan.training.dependencies;
  std::int64_t steps = 0, beside = 0, shifts = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.operation == Operation::ring_shift) ++shifts;
    if (instruction.operation != Operation::forward || instruction.unit < 1 || instruction.segment == 0)
      continue;
    ++steps;
    // The last shift that stands before it in the program brings what the next step needs.
    const LanePosition& wait = dependencies.waits[i][Lane::context];
    if (wait.position < shifts - 1 || wait.previous_step) ++beside;
  }
  EXPECT_EQ(steps, kLayers * 3 * 4);
  EXPECT_EQ(beside, kLayers * 3 * 3) << "all steps but the last one of each ring";
}

TEST(Context, KeepsTheMeaningInAnyOrderThatDependenciesAllow) {
  const Program placed = plan_of(context_config(3, Recompute::full)).training.program;
  const SymbolicState expected = run_in_order(placed, 2);
  for (std::uint32_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(run_in_random_order(placed, 2, seed), expected) << seed;
}

}  // namespace
}  // namespace strata::test
