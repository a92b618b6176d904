// Asynchronous pipelines: rounds that are the steady state of one long schedule, programs that mean it on any
// budget, idle time, activations and versions of weights held to the formulas of
// docs/explanation/pipelines.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/lower/pipeline.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/rounds.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

using enum PipelineSchedule;
using ::testing::HasSubstr;

constexpr std::int64_t kMicrobatches = 6;

RunConfig run_of(PipelineSchedule schedule, std::int64_t stages, bool on_device = true) {
  RunConfig config = tiny_config({.microbatches = kMicrobatches, .clips = false});
  config.plan.order.reset();
  config.parallel.pipeline = stages;
  config.parallel.schedule = schedule;
  if (on_device) config.memory.optimizer_state = TierChoice::device;
  return config;
}

std::vector<RunConfig> asynchronous_runs() {
  std::vector<RunConfig> runs;
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    for (const std::int64_t stages : {2, 3, 6}) {
      for (const bool on_device : {true, false}) runs.push_back(run_of(schedule, stages, on_device));
    }
  }
  return runs;
}

std::string name_of(const RunConfig& config) {
  return fmt::format("schedule {} of {} stages, state {}", static_cast<int>(config.parallel.schedule),
                     config.parallel.pipeline,
                     config.memory.optimizer_state == TierChoice::device ? "on the device" : "anywhere");
}

Strategy strategy_of(const RunConfig& config, const Model& model, std::int32_t stage,
                     std::size_t units_on_device) {
  Strategy strategy = make_strategy(config, model, stage);
  for (std::size_t u = 0; u < units_on_device; ++u) strategy.state[u] = Tier::device;
  return strategy;
}

// Invariant (Asynchronous*.*): Stale weights are those of the schedule.
TEST(AsynchronousRounds, AreOneScheduleOfAllMicrobatchesWithItsFillAndItsDrain) {
  constexpr std::int32_t kSteps = 3;
  for (const auto& [schedule, stages] : {std::pair{pipedream_2bw, 2},
                                         {pipedream_2bw, 3},
                                         {pipedream_2bw, 6},
                                         {pipedream, 2},
                                         {pipedream, 3},
                                         {pipedream, 4},
                                         {pipedream, 5},
                                         {pipedream, 6}}) {
    for (const std::int32_t microbatches : {6, 7}) {
      const PipelineShape shape = {schedule, stages, 1, microbatches};
      PipelineShape all = shape;
      all.microbatches *= kSteps;
      const PipelinePasses expected = training_passes(all);
      const auto rounds = training_round(shape);
      for (std::size_t stage = 0; stage < rounds.size(); ++stage) {
        std::vector<ChunkPass> passes;
        for (std::int32_t round = 0; round <= kSteps; ++round) {
          for (const StageStep& step : rounds[stage]) {
            const std::int32_t of = step.serves == Serves::step ? round : round - 1;
            if (step.is_message || of < 0 || of == kSteps) continue;
            passes.push_back(step.pass);
            passes.back().microbatch += of * microbatches;
          }
        }
        EXPECT_EQ(passes, expected[stage]) << stage << " of " << stages;
        EXPECT_EQ(most_in_flight(passes), stages - static_cast<std::int32_t>(stage));
      }
    }
  }
}

/// Only blocks take time, a forward pass of a stage 1 and its backward pass 2. A run fills and drains once,
/// and no step waits.
TEST(AsynchronousPrograms, WaitOnceInARunNotOnceInAStep) {
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    for (const auto& [stages, listed] :
         {std::pair{2, std::vector<std::string>{"3", "3"}}, {4, {"2", "1", "1", "2"}}}) {
      const double of_block = stages / 4.0;
      RunConfig config = run_of(schedule, stages);
      config.parallel.stages = listed;
      const std::vector<Plan> plans = make_plans(config, tiny_model(4, false), {});
      const std::vector<RankProgram> ranks = ranks_of(plans);
      const auto seconds = [&](std::size_t number, const Instruction& instruction) {
        const bool is_of_block =
            instruction.unit > 0 && instruction.unit + 1 < std::ssize(plans[number].only().strategy.state);
        const double passes = instruction.operation == Operation::backward  ? 2
                              : instruction.operation == Operation::forward ? 1
                                                                            : 0;
        return is_of_block ? of_block * passes : 0;
      };
      for (const int steps : {1, 2, 5}) {
        SCOPED_TRACE(fmt::format("{} stages, {} steps", stages, steps));
        const double taken = run_tasks(rank_tasks(ranks, steps, seconds)).seconds;
        const double once = 3.0 * kMicrobatches * steps + 3 * (stages - 1);
        EXPECT_EQ(taken, once);
      }
    }
  }
}

/// make_plans() verifies that programs of all stages meet, whatever room they have.
TEST(AsynchronousProgramsLongTest, MeetWithoutACircleWithAnyBudget) {
  const Model model = tiny_model(4, false);
  for (RunConfig config : asynchronous_runs()) {
    for (const bool clips : {false, true}) {
      for (const int data : {1, 2}) {
        SCOPED_TRACE(name_of(config));
        if (clips && config.parallel.schedule == pipedream) continue;
        config.optimizer.clip_norm = clips ? 1 : 0;
        config.parallel.data = data;
        config.train.batch = 2 * kMicrobatches * data;
        config.memory.device = kUnlimited;
        config.train.validate_every = 1;
        config.train.validation_batches = 5;
        make_plans(config, model, {});
        config.memory.device = 1;
        make_plans(with_named_budgets(config, refusal(config, model)), model, {});
      }
    }
  }
}

/// A symbolic machine whose stages' messages have the same contents for the same microbatch of a step.
TEST(AsynchronousProgramsLongTest, KeepTheirMeaningOnAnyBudgetInAnyOrder) {
  const Model model = tiny_model(4, false);
  constexpr int kSteps = 3;
  for (const RunConfig& config : asynchronous_runs()) {
    SCOPED_TRACE(name_of(config));
    for (std::int32_t stage = 0; stage < config.parallel.pipeline; ++stage) {
      SymbolicState expected;
      for (const std::size_t on_device : {0, 3, 6}) {
        for (const bool pins : {false, true}) {
          Strategy strategy = strategy_of(config, model, stage, on_device);
          strategy.pins = {pins, pins, pins};
          const Program plain = lower_training(model, strategy);
          SymbolicState state = run_in_order(plain, kSteps);
          const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
          for (const Bytes budget : {smallest, smallest + smallest / 2, kUnlimited}) {
            const Program placed =
                place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
            verify(placed, kNoLimits);
            EXPECT_EQ(run_in_order(placed, kSteps), state);
            for (std::uint32_t seed = 0; seed < 3; ++seed)
              EXPECT_EQ(run_in_random_order(placed, kSteps, seed), state);
          }
        }
      }
    }
  }
}

/// Runs the rounds and counts for each unit whose stashed parameters are still to be used.
TEST(AsynchronousPrograms, KeepAsManyVersionsOfWeightsAsTheFormulasSay) {
  const Model model = tiny_model(4, false);
  for (const RunConfig& config : asynchronous_runs()) {
    SCOPED_TRACE(name_of(config));
    for (std::int32_t stage = 0; stage < config.parallel.pipeline; ++stage) {
      const bool is_each = config.parallel.schedule == pipedream;
      const std::int64_t versions = is_each ? config.parallel.pipeline - stage : 2;
      const Strategy strategy = strategy_of(config, model, stage, 6);
      EXPECT_EQ(strategy.updates_behind() + 1, versions);
      // On the device with all state: what there is of parameters beside those that updates write.
      const Program placed = place(keep_resident(lower_training(model, strategy), kDevicePair, kUnlimited));
      const std::vector<Lifetime> live = lifetimes(placed);
      const auto count = static_cast<std::int32_t>(placed.instructions.size());
      std::vector<Bytes> change(placed.instructions.size() + 1, 0);
      Bytes newest = 0;
      for (std::size_t b = 0; b < live.size(); ++b) {
        const Buffer& buffer = placed.buffers[b];
        if (buffer.kind != BufferKind::parameter || buffer.tier != Tier::device) continue;
        if (buffer.name->starts_with("embedding/")) continue;  // no backward pass reads it
        if (buffer.persistent) newest += buffer.bytes;
        live[b].for_each_stretch(count, [&](std::int32_t first, std::int32_t last) {
          change[static_cast<std::size_t>(first)] += buffer.bytes;
          change[static_cast<std::size_t>(last) + 1] -= buffer.bytes;
        });
      }
      Bytes now = 0, most = 0;
      for (const Bytes bytes : change) most = std::max(most, now += bytes);
      EXPECT_EQ(most, versions * newest) << stage;
    }
  }
}

/// Each input of a microbatch whose backward pass is not done stays, on the device as on the host.
TEST(AsynchronousPrograms, CarryWhatARoundLeavesToTheNext) {
  const Model model = tiny_model(4, false);
  for (const PipelineSchedule schedule : {pipedream, pipedream_2bw}) {
    RunConfig config = run_of(schedule, 3);
    config.parallel.stages = {"2", "2", "2"};
    for (const std::size_t on_device : {0, 6}) {
      const Program plain = lower_training(model, strategy_of(config, model, 0, on_device));
      std::set<std::string> carried;
      for (const Buffer& buffer : plain.buffers) {
        if (buffer.carried && buffer.kind != BufferKind::parameter) carried.insert(*buffer.name);
        EXPECT_TRUE(!buffer.carried || buffer.tier == (on_device > 0 ? Tier::device : Tier::host) ||
                    buffer.kind == BufferKind::communication)
            << *buffer.name;
      }
      EXPECT_EQ(carried, (std::set<std::string>{"block.0/input[mb=0]", "block.0/input[mb=1]", "tokens[mb=0]",
                                                "tokens[mb=1]"}));
    }
  }
}

TEST(AsynchronousPrograms, ThatLoseWhatIsCarriedAreFound) {
  const Model model = tiny_model(4, false);
  Program program = place(lower_training(model, strategy_of(run_of(pipedream_2bw, 2), model, 0, 0)));
  verify(program, kNoLimits);
  const auto stash = std::ranges::find(program.instructions, Operation::stash, &Instruction::operation);
  std::rotate(program.instructions.begin(), stash, stash + 1);
  EXPECT_THAT([&] { verify(program, kNoLimits); },
              ::testing::ThrowsMessage<std::logic_error>(HasSubstr("behind the step's own")));
}

TEST(AsynchronousSchedules, AreRefusedWhereTheyDoNotGo) {
  const Model model = tiny_model(4, false);
  RunConfig config = run_of(pipedream, 3);
  config.optimizer.clip_norm = 1;
  EXPECT_THAT(refusal(config, model), HasSubstr("set optimizer.clip_norm to 0, or take pipedream_2bw"));
  config.spike.factor = 3;
  EXPECT_THAT(refusal(config, model), HasSubstr("tell spikes by; set train.spike.factor to 0"));
  config.spike.factor = 0;
  config.parallel.schedule = pipedream_2bw;
  EXPECT_EQ(refusal(config, model), "");
  config.train.precision = DType::fp16;
  EXPECT_THAT(refusal(config, model), HasSubstr("take train.precision bf16 or fp32"));
  config.train.precision = DType::bf16;
  EXPECT_THAT(refusal(config, tiny_model(4, true)), HasSubstr("head shares those of embedding"));
  config.train.batch = 4;
  EXPECT_THAT(refusal(config, model), HasSubstr("at least as many microbatches in a step as"));
  config.parallel.chunks = 2;
  EXPECT_THAT(refusal(config, model), HasSubstr("interleaved or breadth_first"));
}

}  // namespace
}  // namespace strata::test
