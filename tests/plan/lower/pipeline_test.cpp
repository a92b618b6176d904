// Schedules of pipelines: what each stage does, held to the formulas of docs/explanation/pipelines.md.
#include "engine/plan/lower/pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "engine/config/choices.h"
#include "engine/plan/program/tasks.h"

namespace strata {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<PipelineShape> all_shapes() {
  std::vector<PipelineShape> shapes;
  for (const std::int32_t stages : {2, 3, 4, 8}) {
    for (const std::int32_t microbatches : {1, 2, 3, 4, 5, 8, 16}) {
      for (const std::int32_t chunks : {1, 2, 3}) {
        for (const PipelineSchedule schedule :
             {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
              PipelineSchedule::zero_bubble, PipelineSchedule::breadth_first}) {
          const PipelineShape shape = {schedule, stages, chunks, microbatches};
          if (check_pipeline(shape).empty()) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

std::string name_of(const PipelineShape& shape) {
  return fmt::format("schedule {} of {} stages, {} chunks, {} microbatches", static_cast<int>(shape.schedule),
                     shape.stages, shape.chunks, shape.microbatches);
}

// Invariant of ranks (Pipeline.*): Schedules match the formulas. Idle time, activations in flight and bytes
// are those of the published formulas.
TEST(Pipeline, DoesEachPassOnceInTimeAndOnItsStage) {
  for (const PipelineShape& shape : all_shapes()) {
    SCOPED_TRACE(name_of(shape));
    const PipelinePasses passes = training_passes(shape);
    std::map<std::pair<Pass, std::int32_t>, std::vector<std::int32_t>> seen;
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::pair<std::int32_t, std::int32_t>> forward, input;
      for (const auto& [pass, chunk, mb] : passes[static_cast<std::size_t>(stage)]) {
        ASSERT_EQ(shape.stage_of(chunk), stage);
        seen[{pass, chunk}].push_back(mb);
        if (pass == Pass::forward) forward.emplace(chunk, mb);
        if (pass == Pass::backward || pass == Pass::input_gradient) {
          ASSERT_TRUE(forward.contains({chunk, mb}));
        }
        if (pass == Pass::input_gradient) input.emplace(chunk, mb);
        if (pass == Pass::weight_gradient) {
          ASSERT_TRUE(input.contains({chunk, mb}));
        }
      }
    }
    const bool is_divided = shape.schedule == PipelineSchedule::zero_bubble;
    std::vector<std::int32_t> in_order;
    for (std::int32_t mb = 0; mb < shape.microbatches; ++mb) in_order.push_back(mb);
    for (std::int32_t chunk = 0; chunk < shape.all_chunks(); ++chunk) {
      // Sums of gradients have one order.
      for (const Pass pass : {Pass::forward, is_divided ? Pass::input_gradient : Pass::backward})
        EXPECT_EQ((seen[{pass, chunk}]), in_order);
      if (is_divided) {
        EXPECT_EQ((seen[{Pass::weight_gradient, chunk}]), in_order);
      }
    }
  }
}

/// Holds for one stage, in units of time.
double idle(const PipelineShape& shape) {
  const double stages = shape.stages, microbatches = shape.microbatches, chunks = shape.chunks;
  const double missing = std::max(0.0, stages - microbatches);
  switch (shape.schedule) {
    case PipelineSchedule::zero_bubble:
      return stages - 1 + missing;
    case PipelineSchedule::breadth_first:
      return 3 * (stages - 1) + 3 * (chunks - 1) * missing;
    default:
      return 3 * (stages - 1);
  }
}

TEST(Pipeline, IsIdleAsLongAsTheFormulasSay) {
  for (const PipelineShape& shape : all_shapes()) {
    SCOPED_TRACE(name_of(shape));
    const auto timeline = pipeline_timeline(shape, training_passes(shape));
    double end = 0;
    for (const std::vector<TimedPass>& stage : timeline) end = std::max(end, stage.back().end);
    const double work = 3.0 * shape.microbatches * shape.chunks;
    EXPECT_EQ(end, work + idle(shape));
  }
}

TEST(Pipeline, HasAsManyActivationsInFlightAsTheFormulasSay) {
  for (const PipelineShape& shape : all_shapes()) {
    SCOPED_TRACE(name_of(shape));
    const PipelinePasses passes = training_passes(shape);
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const std::int32_t all = shape.microbatches * shape.chunks, behind = shape.stages - stage;
      std::int32_t expected = all;
      if (shape.schedule == PipelineSchedule::one_f_one_b) expected = std::min(all, behind);
      if (shape.schedule == PipelineSchedule::interleaved)
        expected = std::min(
            all, shape.chunks == 1 ? behind : 2 * (behind - 1) + (shape.chunks - 1) * shape.stages + 1);
      if (shape.schedule == PipelineSchedule::zero_bubble) expected = std::min(all, shape.stages);
      EXPECT_EQ(most_in_flight(passes[static_cast<std::size_t>(stage)]), expected) << stage;
    }
  }
}

/// A rank that does one thing at a time, with sends that wait for their receives.
// Invariant of ranks: Stages never wait in a circle. No stage waits for a checkpoint that another stage never
// finishes.
TEST(Pipeline, NeverWaitsInACircleThoughEachRankDoesOneThingAtATime) {
  for (const PipelineShape& shape : all_shapes()) {
    SCOPED_TRACE(name_of(shape));
    for (const PipelinePasses& passes : {training_passes(shape), validation_passes(shape)}) {
      std::vector<LaneTask> tasks;
      std::map<std::tuple<bool, std::int32_t, std::int32_t>, std::int32_t> meetings;
      std::size_t messages = 0;
      const std::vector<std::vector<StageStep>> stages = with_messages(shape, passes);
      for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        for (const StageStep& step : stages[stage]) {
          LaneTask task = {.lane = static_cast<std::int32_t>(stage), .seconds = 1};
          if (step.is_message) {
            const auto& [is_gradient, chunk, mb, from, to] = step.message;
            EXPECT_TRUE(static_cast<std::int32_t>(stage) == from || static_cast<std::int32_t>(stage) == to);
            task.meeting = meetings.try_emplace({is_gradient, chunk, mb}, std::ssize(meetings)).first->second;
            ++messages;
          }
          tasks.push_back(task);
        }
      }
      EXPECT_THAT(run_tasks(tasks).stuck, IsEmpty());
      // A stage sends its chunks' outputs and gradients, but for the last output and the first gradient.
      const bool trains = passes[0].back().pass != Pass::forward;
      EXPECT_EQ(messages, 2U * (trains ? 2 : 1) * static_cast<std::size_t>(shape.all_chunks() - 1) *
                              static_cast<std::size_t>(shape.microbatches));
    }
  }
}

TEST(Pipeline, ReceivesBeforeAndSendsBehindThePassThatItIsFor) {
  for (const PipelineShape& shape : all_shapes()) {
    SCOPED_TRACE(name_of(shape));
    const std::vector<std::vector<StageStep>> stages = with_messages(shape, training_passes(shape));
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::tuple<bool, std::int32_t, std::int32_t>> done, received;
      for (const StageStep& step : stages[static_cast<std::size_t>(stage)]) {
        if (step.is_message) {
          const auto& [is_gradient, chunk, mb, from, to] = step.message;
          if (from == stage) {
            EXPECT_TRUE(done.contains({is_gradient, is_gradient ? chunk : chunk - 1, mb}));
          } else {
            received.emplace(is_gradient, is_gradient ? chunk - 1 : chunk, mb);
          }
          continue;
        }
        const auto& [pass, chunk, mb] = step.pass;
        if (pass == Pass::weight_gradient) continue;
        const bool is_gradient = pass != Pass::forward;
        const bool is_first = is_gradient ? chunk == shape.all_chunks() - 1 : chunk == 0;
        EXPECT_TRUE(is_first || received.contains({is_gradient, chunk, mb}));
        done.emplace(is_gradient, chunk, mb);
      }
    }
  }
}

TEST(Pipeline, PrintsWhoDoesWhatWhen) {
  const auto table = [](const PipelineShape& shape) { return print_table(shape, training_passes(shape)); };
  EXPECT_EQ(table({PipelineSchedule::one_f_one_b, 2, 1, 2}),
            "stage 0   F0 F1       B0---    B1---\n"
            "stage 1      F0 B0--- F1 B1---\n");
  EXPECT_EQ(table({PipelineSchedule::zero_bubble, 2, 1, 3}),
            "stage 0   F0 F1    I0 W0 F2 I1 W1 I2 W2\n"
            "stage 1      F0 I0 F1 I1 W0 F2 I2 W1 W2\n");
  EXPECT_EQ(table({PipelineSchedule::breadth_first, 2, 2, 1}),
            "stage 0   F0.0      F0.2                B0.2-----           B0.0-----\n"
            "stage 1        F0.1      F0.3 B0.3-----           B0.1-----\n");
}

TEST(Pipeline, RefusesNumbersThatAScheduleCannotTake) {
  EXPECT_THAT(check_pipeline({PipelineSchedule::interleaved, 4, 2, 6}), HasSubstr("8 would fit"));
  EXPECT_THAT(check_pipeline({PipelineSchedule::one_f_one_b, 4, 2, 8}), HasSubstr("breadth_first"));
  EXPECT_THAT(check_pipeline({PipelineSchedule::interleaved, 4, 2, 8}), IsEmpty());
  EXPECT_THAT(check_pipeline({PipelineSchedule::one_f_one_b, 4, 1, 3}), IsEmpty());
}

}  // namespace
}  // namespace strata
