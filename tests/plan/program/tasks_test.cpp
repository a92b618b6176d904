// When tasks of lanes begin and end.
#include "engine/plan/program/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<double> starts(const Timeline& timeline) {
  std::vector<double> starts;
  for (const Timeline::Span& span : timeline.tasks) starts.push_back(span.start);
  return starts;
}

TEST(Tasks, BeginsATaskWhenItsLaneIsFreeAndWhatItWaitsForHasEnded) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 2},
                                       {.lane = 1, .seconds = 3},
                                       {.lane = 0, .seconds = 1},
                                       {.lane = 0, .seconds = 1, .after = {1}},
                                       {.lane = 1, .seconds = 1, .after = {0}}});
  EXPECT_THAT(starts(timeline), ElementsAre(0, 0, 2, 3, 3));
  EXPECT_EQ(timeline.seconds, 4);
  EXPECT_THAT(timeline.stuck, IsEmpty());
}

TEST(Tasks, LetsTasksThatMeetBeginTogether) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 5},
                                       {.lane = 0, .seconds = 1, .meeting = 7},
                                       {.lane = 1, .seconds = 2, .meeting = 7},
                                       {.lane = 1, .seconds = 1}});
  EXPECT_THAT(starts(timeline), ElementsAre(0, 5, 5, 7));
}

constexpr std::int32_t kDrive = 0, kCores = 1;

TEST(Tasks, SlowsDownAlikeWhatTogetherWantsMoreThanThereIs) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 2, .shares = {{{kDrive, 1}}}},
                                       {.lane = 1, .seconds = 1, .shares = {{{kDrive, 1}}}},
                                       {.lane = 2, .seconds = 1, .shares = {{{kCores, 1}}}}});
  EXPECT_EQ(timeline.tasks[1].end, 2);  // at half its speed
  EXPECT_EQ(timeline.tasks[0].end, 3);  // at half of it until then
  EXPECT_EQ(timeline.tasks[2].end, 1);
}

TEST(Tasks, RunsAtFullSpeedWhatLeavesRoomForTheOthers) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 2, .shares = {{{kCores, 0.5}}}},
                                       {.lane = 1, .seconds = 1, .shares = {{{kCores, 0.25}}}}});
  EXPECT_EQ(timeline.tasks[0].end, 2);
  EXPECT_EQ(timeline.tasks[1].end, 1);
}

TEST(Tasks, TakesTheSpeedOfTheScarcestResource) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 1, .shares = {{{kDrive, 1}, {kCores, 0.5}}}},
                                       {.lane = 1, .seconds = 1, .shares = {{{kCores, 0.5}}}},
                                       {.lane = 2, .seconds = 12, .shares = {{{kDrive, 3}}}}});
  EXPECT_EQ(timeline.tasks[1].end, 1);
  EXPECT_EQ(timeline.tasks[0].end, 4);
}

TEST(Tasks, NamesTheFirstTaskOfEachLaneThatWaitsForEver) {
  const Timeline timeline = run_tasks({{.lane = 0, .seconds = 1},
                                       {.lane = 0, .seconds = 1, .meeting = 1},
                                       {.lane = 0, .seconds = 1, .meeting = 2},
                                       {.lane = 1, .seconds = 1, .meeting = 2},
                                       {.lane = 1, .seconds = 1, .meeting = 1},
                                       {.lane = 2, .seconds = 1}});
  EXPECT_THAT(timeline.stuck, ElementsAre(1, 3));
  EXPECT_TRUE(timeline.tasks[0].has_run());
  EXPECT_FALSE(timeline.tasks[2].has_run());
}

}  // namespace
}  // namespace strata
