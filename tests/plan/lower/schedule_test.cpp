// A schedule is the order of a step's work, as plain values.
#include "engine/plan/lower/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "engine/config/choices.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

const std::vector<UnitWork> kAll(3);

Strategy strategy_of(StrategyOptions options) {
  return tiny_strategy(tiny_model(), options);
}

std::string printed(const Schedule& schedule) {
  return print(schedule, {"embedding", "block.0", "head"});
}

TEST(Schedule, PassesAUnitWithAllMicrobatchesInLayerMajorOrder) {
  const Strategy strategy = strategy_of({.order = Order::layer_major, .microbatches = 2, .clips = true});
  EXPECT_EQ(printed(training_schedule(strategy, kAll)),
            "forward embedding mb=0\nforward embedding mb=1\n"
            "forward block.0 mb=0\nforward block.0 mb=1\n"
            "backward head mb=0\nbackward head mb=1\nfinish_gradient head\nreduce_gradient head\n"
            "backward block.0 mb=0\nbackward block.0 mb=1\n"
            "finish_gradient block.0\nreduce_gradient block.0\n"
            "backward embedding mb=0\nbackward embedding mb=1\n"
            "finish_gradient embedding\nreduce_gradient embedding\n"
            "loss\ngradient_norm\nupdate embedding\nupdate block.0\nupdate head\n");
}

/// The device's units are updated where nothing has to be fetched for it.
TEST(Schedule, UpdatesLateRightBeforeEachUnitIsFirstUsed) {
  StrategyOptions options = {.microbatches = 2, .units_on_device = 1, .clips = true, .updates_late = true};
  const std::string backward =
      "backward head mb=0\nbackward head mb=1\nfinish_gradient head\nreduce_gradient head\n"
      "backward block.0 mb=0\nbackward block.0 mb=1\nfinish_gradient block.0\nreduce_gradient block.0\n"
      "backward embedding mb=0\nbackward embedding mb=1\nfinish_gradient embedding\n"
      "reduce_gradient embedding\nloss\ngradient_norm\n";
  EXPECT_EQ(printed(training_schedule(strategy_of(options), kAll)),
            "forward embedding mb=0\nforward embedding mb=1\n"
            "update block.0 for the step before\nforward block.0 mb=0\nforward block.0 mb=1\n"
            "update head for the step before\n" +
                backward + "update embedding\n");
  options.order = Order::microbatch_major;
  options.units_on_device = 0;
  options.microbatches = 1;
  EXPECT_EQ(printed(training_schedule(strategy_of(options), kAll)),
            "update embedding for the step before\nforward embedding mb=0\n"
            "update block.0 for the step before\nforward block.0 mb=0\nupdate head for the step before\n" +
                std::regex_replace(backward, std::regex("backward [a-z.0]+ mb=1\n"), ""));
}

TEST(Schedule, PassesAllUnitsWithOneMicrobatchInMicrobatchMajorOrder) {
  const Strategy strategy =
      strategy_of({.order = Order::microbatch_major, .microbatches = 2, .clips = false});
  EXPECT_EQ(printed(training_schedule(strategy, kAll)),
            "forward embedding mb=0\nforward block.0 mb=0\nbackward head mb=0\nbackward block.0 mb=0\n"
            "forward embedding mb=1\nforward block.0 mb=1\n"
            "backward head mb=1\nfinish_gradient head\nreduce_gradient head\nupdate head\n"
            "backward block.0 mb=1\nfinish_gradient block.0\nreduce_gradient block.0\nupdate block.0\n"
            "backward embedding mb=0\nbackward embedding mb=1\n"
            "finish_gradient embedding\nreduce_gradient embedding\nupdate embedding\n"
            "loss\ngradient_norm\n");
}

TEST(Schedule, DelaysWhatRanksExchangeBehindTheNextBackwardPass) {
  const Strategy strategy = strategy_of({.microbatches = 1, .mesh = {.shard = 2}, .delays_reduction = true});
  const Schedule schedule = training_schedule(strategy, kAll);
  const auto at = [&](Pass pass, std::int32_t unit) {
    return std::ranges::find_if(schedule,
                                [&](const Visit& visit) { return visit.pass == pass && visit.unit == unit; });
  };
  EXPECT_LT(at(Pass::backward, 1), at(Pass::reduce_gradient, 2));
  EXPECT_LT(at(Pass::backward, 0), at(Pass::reduce_gradient, 1));
}

TEST(Schedule, ReducesAllGradientsLastInStageOne) {
  const Strategy strategy = strategy_of({.microbatches = 1, .mesh = {.shard = 2}, .zero_stage = 1});
  const Schedule schedule = training_schedule(strategy, kAll);
  const auto first = std::ranges::find(schedule, Pass::reduce_gradient, &Visit::pass);
  EXPECT_EQ(
      std::find_if(first, schedule.end(), [](const Visit& visit) { return visit.pass == Pass::backward; }),
      schedule.end());
}

/// A late update belongs to the round before.
void expect_each_once_and_in_time(const Strategy& strategy) {
  constexpr std::int32_t kUnits = 5;
  const Schedule schedule = training_schedule(strategy, std::vector<UnitWork>(kUnits));
  std::map<std::pair<Pass, std::int32_t>, std::vector<std::int32_t>> seen;
  std::map<Pass, std::ptrdiff_t> last;
  for (const Visit& visit : schedule) {
    seen[{visit.pass, visit.unit}].push_back(visit.microbatch);
    last[visit.pass] = &visit - schedule.data();
    if (visit.pass == Pass::update) {
      EXPECT_EQ(visit.serves == Serves::step_before, strategy.updates_late);
      EXPECT_TRUE(!strategy.updates_late || (seen[{Pass::forward, visit.unit}]).empty());
      EXPECT_TRUE(!strategy.updates_late || (seen[{Pass::backward, visit.unit}]).empty());
    }
  }
  for (std::int32_t u = 0; u < kUnits; ++u) {
    EXPECT_THAT((seen[{Pass::backward, u}]), ElementsAre(0, 1, 2));
    if (u < kUnits - 1) {
      EXPECT_THAT((seen[{Pass::forward, u}]), ElementsAre(0, 1, 2));
    }
    for (const Pass pass : {Pass::finish_gradient, Pass::reduce_gradient, Pass::update})
      EXPECT_THAT((seen[{pass, u}]), ElementsAre(-1));
  }
  EXPECT_TRUE((seen[{Pass::forward, kUnits - 1}]).empty());  // its backward pass includes it
  EXPECT_LT(last[Pass::forward], last[Pass::backward]);
  EXPECT_LT(last[Pass::reduce_gradient], last[Pass::gradient_norm]);
  EXPECT_EQ(strategy.global_norm && !strategy.updates_late, last[Pass::gradient_norm] < last[Pass::update]);
}

/// What every schedule must be, whatever a strategy says.
TEST(Schedule, DoesEachPieceOfWorkOnceAndInTime) {
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const bool clips : {false, true}) {
      for (const bool delays : {false, true}) {
        for (const int stage : {1, 2, 3}) {
          for (const std::int64_t shard : {1, 2}) {
            for (const bool late : {false, clips}) {
              expect_each_once_and_in_time(strategy_of({.order = order,
                                                        .units_on_device = late ? 0U : 2U,
                                                        .clips = clips,
                                                        .mesh = {.shard = shard},
                                                        .zero_stage = stage,
                                                        .delays_reduction = delays,
                                                        .updates_late = late}));
            }
          }
        }
      }
    }
  }
}

TEST(Schedule, OfValidationPassesForwardOnly) {
  EXPECT_EQ(printed(validation_schedule(strategy_of({.order = Order::layer_major}), 3, 2)),
            "forward embedding mb=0\nforward embedding mb=1\nforward block.0 mb=0\nforward block.0 mb=1\n"
            "forward head mb=0\nforward head mb=1\nloss\n");
  EXPECT_EQ(printed(validation_schedule(strategy_of({.order = Order::microbatch_major}), 3, 1)),
            "forward embedding mb=0\nforward block.0 mb=0\nforward head mb=0\nloss\n");
}

}  // namespace
}  // namespace strata::test
