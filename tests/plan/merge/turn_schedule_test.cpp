// Turn sequences on several stage sets.
#include "engine/plan/merge/turn_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace strata {
namespace {

using ::testing::ElementsAre;

const std::vector<StageSet> kTwoStages = {{0, {0, 0}}, {1, {1, 1}}};

/// A turn of one of two stages, behind others.
JointTurn on(std::size_t stage, double seconds, const std::vector<std::int32_t>& after = {}) {
  JointTurn turn;
  turn.stages.resize(2);
  turn.stages[stage] = {.turns = 1, .seconds = seconds, .after = after};
  return turn;
}

/// A message: the sender's turn comes behind `sent`.
JointTurn message(std::size_t sender, std::int32_t sent) {
  JointTurn turn;
  turn.stages.resize(2);
  turn.stages[sender] = {.turns = 1, .seconds = 0, .after = {sent}};
  turn.stages[1 - sender] = {.turns = 1, .seconds = 0, .after = {}};
  return turn;
}

/// Forward on both stages and backward, for one microbatch: while one stage computes the other waits.
ModelTurns there_and_back() {
  return {{on(0, 1), message(0, 0), on(1, 3, {1}), message(1, 2), on(0, 2, {3})}, 1};
}

TurnSchedule named(const std::string& name, const std::vector<ModelTurns>& models) {
  for (const TurnSchedule& schedule : turn_schedules(models, kTwoStages)) {
    if (schedule.name == name) return schedule;
  }
  ADD_FAILURE() << "no schedule is called " << name;
  return {};
}

TEST(TurnSchedules, HaveOneModelAfterAnother) {
  const TurnSchedule schedule = named("step after step", {there_and_back(), there_and_back()});
  EXPECT_THAT(schedule.models,
              ElementsAre(ElementsAre(0, 0, 0, 0, 1, 1, 1, 1), ElementsAre(0, 0, 0, 1, 1, 1)));
}

/// The first stage computes for the second model while the second stage does for the first.
TEST(TurnSchedules, FillBubbles) {
  const TurnSchedule schedule =
      named("step after step, bubbles filled", {there_and_back(), there_and_back()});
  EXPECT_THAT(schedule.models,
              ElementsAre(ElementsAre(0, 0, 1, 1, 0, 0, 1, 1), ElementsAre(0, 0, 1, 0, 1, 1)));
}

TEST(TurnSchedules, HaveNothingToFillOnOneRole) {
  const std::vector<StageSet> one = {{0, {0, 0}}};
  ModelTurns model = {
      {JointTurn{.stages = {{.turns = 2, .seconds = 1}}}, JointTurn{.stages = {{.turns = 1}}}}, 1};
  for (const TurnSchedule& schedule : turn_schedules({model, model}, one)) {
    EXPECT_THAT(schedule.name, testing::Not(testing::HasSubstr("bubbles")));
    EXPECT_EQ(schedule.models.at(0).size(), 6U);
  }
}

}  // namespace
}  // namespace strata
