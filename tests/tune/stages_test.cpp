// Stages of a pipeline: which units each has, and programs that meet.
#include "engine/run/tune/stages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/lower/pipeline.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/rounds.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Stages, AreAsFastAsTheyCanBeAndThenAsSmall) {
  const std::vector<double> work = {0, 4, 4, 4, 4, 6};
  EXPECT_THAT(balanced_cut(work, std::vector<Bytes>{9, 1, 1, 1, 1, 1}, 2), ElementsAre(0, 4));
  EXPECT_THAT(balanced_cut(work, std::vector<Bytes>{9, 1, 1, 1, 1, 9}, 3), ElementsAre(0, 3, 5));
  // The slowest has 8 of work in any case: what is large goes where there is room.
  EXPECT_THAT(balanced_cut(std::vector<double>{1, 1, 8, 1, 1}, std::vector<Bytes>{5, 5, 1, 1, 1}, 4),
              ElementsAre(0, 1, 2, 3));
}

TEST(Stages, AreAsTheRunFileSays) {
  const Model model = tiny_model(4);  // and embedding, head
  RunConfig config = tiny_config({.microbatches = 4});
  config.plan.order.reset();
  config.parallel.pipeline = 2;
  config.parallel.stages = {"4", "2"};
  EXPECT_THAT(cut_into_stages(config, model), ElementsAre(0, 4));
  config.parallel.stages = {"embedding", "block.1"};
  EXPECT_THAT(cut_into_stages(config, model), ElementsAre(0, 2));
  const auto refusal_of = [&](std::vector<std::string> stages) {
    config.parallel.stages = std::move(stages);
    return refusal(config, model);
  };
  EXPECT_THAT(refusal_of({"4", "3"}), AllOf(HasSubstr("is 7 units"), HasSubstr("the model has 6")));
  EXPECT_THAT(refusal_of({"4", "1", "1"}), HasSubstr("has 3 entries"));
  EXPECT_THAT(refusal_of({"embedding", "block.9"}), HasSubstr("names block.9"));
  EXPECT_THAT(refusal_of({"block.0", "block.1"}), HasSubstr("must begin with embedding"));
  EXPECT_THAT(refusal_of({"6", "0"}), HasSubstr("at least 1 unit"));
}

TEST(Stages, AreRefusedIfTheModelHasTooFewUnits) {
  RunConfig config = tiny_config({.microbatches = 4});
  config.plan.order.reset();
  config.parallel.pipeline = 8;
  EXPECT_THAT(refusal(config, tiny_model(4)),
              AllOf(HasSubstr("the model has 6"), HasSubstr("pipeline 6 would fit")));
  config.parallel.pipeline = 2;
  config.parallel.chunks = 2;
  EXPECT_THAT(refusal(config, tiny_model(4)), HasSubstr("interleaved or breadth_first"));
  config.parallel.schedule = PipelineSchedule::interleaved;
  config.train.batch = 6;
  EXPECT_THAT(refusal(config, tiny_model(4)), HasSubstr("4 would fit"));
}

std::vector<RunConfig> pipelined_runs() {
  std::vector<RunConfig> runs;
  for (const auto& [stages, chunks] : {std::pair{2, 1}, {3, 1}, {2, 3}, {6, 1}}) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
          PipelineSchedule::zero_bubble, PipelineSchedule::breadth_first}) {
      const bool takes_chunks =
          schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::breadth_first;
      if (chunks > 1 && !takes_chunks) continue;
      for (const int data : {1, 2}) {
        RunConfig config = tiny_config({.microbatches = 6});
        config.plan.order.reset();
        config.parallel.pipeline = stages;
        config.parallel.chunks = chunks;
        config.parallel.schedule = schedule;
        config.parallel.data = data;
        config.train.batch *= data;
        config.train.validate_every = 1;
        config.train.validation_batches = 5;
        runs.push_back(config);
      }
    }
  }
  return runs;
}

/// make_plans() verifies that programs of all stages meet, whatever room they have.
// Invariant: Stages never wait in a circle.
TEST(StagesLongTest, MeetWithoutACircleWithAnyBudget) {
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(4, tied);
    for (RunConfig config : pipelined_runs()) {
      SCOPED_TRACE(fmt::format("schedule {} of {} stages, {} chunks, {} data ranks, {}",
                               static_cast<int>(config.parallel.schedule), config.parallel.pipeline,
                               config.parallel.chunks, config.parallel.data, tied ? "tied" : "untied"));
      make_plans(config, model, {});
      config.memory.device = 1;
      make_plans(with_named_budgets(config, refusal(config, model)), model, {});
    }
  }
}

/// All stages end a checkpoint in one round, since ranks wait there for one another: in that of late updates.
// Invariant: Stages never wait in a circle.
TEST(StagesLongTest, FinishCheckpointsTogether) {
  const Model model = tiny_model(4);
  int late_stages = 0, early_stages = 0;
  for (RunConfig config : pipelined_runs()) {
    config.checkpoint = {"out", 2, 2};
    config.memory.host = kUnlimited;
    config.memory.nvme_path = {"/drive"};
    config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
    for (const bool clips : {true, false}) {
      config.optimizer.clip_norm = clips ? 1 : 0;
      for (const Plan& plan : make_plans(config, model, {})) {
        const std::vector<Instruction>& instructions = plan.training().program.instructions;
        bool is_late = false;  // a stage of nothing but a tied embedding is not
        for (std::int32_t u = 0; u < std::ssize(model.units); ++u)
          is_late = is_late || (plan.only().strategy.has(u) && plan.only().strategy.updates_late_of(u));
        EXPECT_EQ(rounds_behind(plan.training().program), clips ? 1 : 0);
        late_stages += is_late ? 1 : 0;
        early_stages += clips && !is_late ? 1 : 0;
        EXPECT_EQ(std::ranges::count(instructions, Operation::finish_checkpoint, &Instruction::operation), 1);
        // All that a step saves lies between two ends.
        const auto finish =
            std::ranges::find(instructions, Operation::finish_checkpoint, &Instruction::operation);
        const auto is_save_of_step = [](const Instruction& each) {
          return each.operation == Operation::save && each.serves == Serves::step;
        };
        EXPECT_EQ(std::count_if(instructions.begin(), finish, is_save_of_step) == 0, clips);
        EXPECT_EQ(std::count_if(finish, instructions.end(), is_save_of_step) == 0, !clips);
      }
    }
  }
  EXPECT_GT(late_stages, 0);
  EXPECT_GT(early_stages, 0);
}

/// Each microbatch's input and its gradient cross each border of chunks once, and a copy of tied parameters
/// sends its gradient and receives the parameters.
// Invariant: Schedules match the formulas.
TEST(StagesLongTest, SendWhatTheFormulasSay) {
  for (const bool tied : {true, false}) {
    const Model model = tiny_model(4, tied);
    for (const RunConfig& config : pipelined_runs()) {
      const std::vector<Plan> plans = make_plans(config, model, {});
      const Bytes boundary =
          config.train.microbatch * config.data.sequence_length * 16 * size_of(DType::bf16);
      const std::int64_t borders = config.parallel.pipeline * config.parallel.chunks - 1;
      const std::int64_t shard = (model.units[0].elements + config.parallel.data - 1) / config.parallel.data;
      const Bytes copy =
          tied ? model.units[0].elements * size_of(DType::fp32) + shard * size_of(DType::bf16) : 0;
      Bytes sent = 0;
      for (const Plan& plan : plans) sent += plan.training().moved(Link::send);
      EXPECT_EQ(sent, 2 * borders * config.microbatches() * boundary + copy);
      sent = 0;
      for (const Plan& plan : plans) sent += plan.interludes().at(Interlude::validation).moved(Link::send);
      EXPECT_EQ(sent, borders * ((5 + config.parallel.data - 1) / config.parallel.data) * boundary);
    }
  }
}

TEST(StagesLongTest, HoldTheStateOfTheirOwnUnitsOnly) {
  const Model model = tiny_model(4, true);
  for (const RunConfig& config : pipelined_runs()) {
    std::vector<std::string> masters;
    for (const Plan& plan : make_plans(config, model, {})) {
      for (const StateEntry& place : plan.training().program.state) {
        if (place.part == StateKey::master)
          masters.push_back(plan.training().program.units[static_cast<std::size_t>(place.unit)]);
      }
    }
    std::ranges::sort(masters);
    EXPECT_THAT(masters, ElementsAre("block.0", "block.1", "block.2", "block.3", "embedding", "head"));
  }
}

/// Programs lose no time that their schedule does not: only blocks take any, a forward pass of a stage 1 and
/// its backward pass 2.
TEST(Stages, WaitAsLongAsTheirScheduleSays) {
  for (const auto& [stages, listed] :
       {std::pair{2, std::vector<std::string>{"3", "3"}}, {4, {"2", "1", "1", "2"}}}) {
    const double of_block = stages / 4.0;
    for (const PipelineSchedule schedule :
         {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
      RunConfig config = tiny_config({.microbatches = 6});
      config.plan.order.reset();
      config.parallel.pipeline = stages;
      config.parallel.schedule = schedule;
      config.parallel.stages = listed;
      const std::vector<Plan> plans = make_plans(config, tiny_model(4), {});
      const std::vector<RankProgram> ranks = ranks_of(plans);
      const auto seconds = [&](std::size_t number, const Instruction& instruction) {
        const bool is_of_block =
            instruction.unit > 0 && instruction.unit + 1 < std::ssize(plans[number].only().strategy.state);
        const double passes = instruction.operation == Operation::backward ? 2
                              : instruction.operation == Operation::forward ||
                                      instruction.operation == Operation::input_gradient ||
                                      instruction.operation == Operation::weight_gradient
                                  ? 1
                                  : 0;
        return is_of_block ? of_block * passes : 0;
      };
      const double idle = schedule == PipelineSchedule::zero_bubble ? stages - 1 : 3 * (stages - 1);
      EXPECT_EQ(run_tasks(rank_tasks(ranks, 1, seconds)).seconds, 3.0 * 6 + idle)
          << stages << " stages, schedule " << static_cast<int>(schedule);
    }
  }
}

// Invariant: Stages never wait in a circle.
TEST(Ranks, ThatDoNotMeetAreFound) {
  const Model model = tiny_model(4, false);
  RunConfig config = tiny_config({.microbatches = 4});
  config.plan.order.reset();
  config.parallel.pipeline = 2;
  std::vector<Plan> plans = make_plans(config, model, {});
  const auto defect = [&](const auto& change) {
    std::vector<Plan> changed = plans;
    change(changed[0].models.front()->training.program.instructions);
    PlannedProgram& training = changed[0].models.front()->training;
    training.dependencies = find_dependencies(training.program);
    try {
      verify_ranks(ranks_of(changed));
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto is_send = [](const Instruction& instruction) {
    return instruction.operation == Operation::send;
  };
  using Instructions = std::vector<Instruction>;
  EXPECT_EQ(defect([](Instructions&) {}), "");
  EXPECT_THAT(defect([&](Instructions& all) { all.erase(std::ranges::find_if(all, is_send)); }),
              HasSubstr("does not fit"));
  EXPECT_THAT(defect([&](Instructions& all) { std::erase_if(all, is_send); }),
              HasSubstr("1 of 2 ranks come to"));
  // The first gradient is asked for before the first input is sent.
  EXPECT_THAT(defect([&](Instructions& all) {
                const auto receive = std::ranges::find(all, Operation::receive, &Instruction::operation);
                std::rotate(std::ranges::find_if(all, is_send), receive, receive + 1);
              }),
              HasSubstr("wait for each other for ever"));
}

}  // namespace
}  // namespace strata::test
