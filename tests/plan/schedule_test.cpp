// A schedule is the order of a step's work, as plain values.
#include "engine/plan/lower/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/plan/support.h"

namespace strata::test {
namespace {

using ::testing::ElementsAre;

Strategy strategy_of(StrategyOptions options) {
  return tiny_strategy(tiny_model(), options);
}

std::string printed(const Schedule& schedule) {
  return print(schedule, {"embedding", "block.0", "head"});
}

TEST(Schedule, PassesAUnitWithAllMicrobatchesInLayerMajorOrder) {
  const Strategy strategy = strategy_of({.order = Order::layer_major, .microbatches = 2, .clips = true});
  EXPECT_EQ(printed(training_schedule(strategy, 3)),
            "forward embedding mb=0\nforward embedding mb=1\n"
            "forward block.0 mb=0\nforward block.0 mb=1\n"
            "backward head mb=0\nbackward head mb=1\nfinish_gradient head\nreduce_gradient head\n"
            "backward block.0 mb=0\nbackward block.0 mb=1\n"
            "finish_gradient block.0\nreduce_gradient block.0\n"
            "backward embedding mb=0\nbackward embedding mb=1\n"
            "finish_gradient embedding\nreduce_gradient embedding\n"
            "loss\ngradient_norm\nupdate embedding\nupdate block.0\nupdate head\n");
}

TEST(Schedule, PassesAllUnitsWithOneMicrobatchInMicrobatchMajorOrder) {
  const Strategy strategy =
      strategy_of({.order = Order::microbatch_major, .microbatches = 2, .clips = false});
  EXPECT_EQ(printed(training_schedule(strategy, 3)),
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
  const Schedule schedule = training_schedule(strategy, 3);
  const auto at = [&](Pass pass, std::int32_t unit) {
    return std::ranges::find_if(schedule,
                                [&](const Visit& visit) { return visit.pass == pass && visit.unit == unit; });
  };
  EXPECT_LT(at(Pass::backward, 1), at(Pass::reduce_gradient, 2));
  EXPECT_LT(at(Pass::backward, 0), at(Pass::reduce_gradient, 1));
}

TEST(Schedule, ReducesAllGradientsLastInStageOne) {
  const Strategy strategy = strategy_of({.microbatches = 1, .mesh = {.shard = 2}, .zero_stage = 1});
  const Schedule schedule = training_schedule(strategy, 3);
  const auto first = std::ranges::find(schedule, Pass::reduce_gradient, &Visit::pass);
  EXPECT_EQ(
      std::find_if(first, schedule.end(), [](const Visit& visit) { return visit.pass == Pass::backward; }),
      schedule.end());
}

/// What every schedule must be, whatever a strategy says.
TEST(Schedule, DoesEachPieceOfWorkOnceAndInTime) {
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const bool clips : {false, true}) {
      for (const bool delays : {false, true}) {
        for (const int stage : {1, 2, 3}) {
          for (const std::int64_t shard : {1, 2}) {
            const Strategy strategy = strategy_of({.order = order,
                                                   .units_on_device = 2,
                                                   .clips = clips,
                                                   .mesh = {.shard = shard},
                                                   .zero_stage = stage,
                                                   .delays_reduction = delays});
            const Schedule schedule = training_schedule(strategy, 5);
            std::map<std::pair<Pass, std::int32_t>, std::vector<std::int32_t>> seen;
            std::map<Pass, std::ptrdiff_t> last;
            for (const Visit& visit : schedule) {
              seen[{visit.pass, visit.unit}].push_back(visit.microbatch);
              last[visit.pass] = &visit - schedule.data();
            }
            for (std::int32_t u = 0; u < 5; ++u) {
              EXPECT_THAT((seen[{Pass::backward, u}]), ElementsAre(0, 1, 2));
              if (u < 4) {
                EXPECT_THAT((seen[{Pass::forward, u}]), ElementsAre(0, 1, 2));
              }
              for (const Pass pass : {Pass::finish_gradient, Pass::reduce_gradient, Pass::update})
                EXPECT_THAT((seen[{pass, u}]), ElementsAre(-1));
            }
            EXPECT_TRUE((seen[{Pass::forward, 4}]).empty());  // its backward pass includes it
            EXPECT_LT(last[Pass::forward], last[Pass::backward]);
            EXPECT_LT(last[Pass::reduce_gradient], last[Pass::gradient_norm]);
            EXPECT_EQ(clips, last[Pass::gradient_norm] < last[Pass::update]);
          }
        }
      }
    }
  }
}

TEST(Schedule, OfValidationPassesForwardOnly) {
  EXPECT_EQ(printed(validation_schedule(Order::layer_major, 3, 2)),
            "forward embedding mb=0\nforward embedding mb=1\nforward block.0 mb=0\nforward block.0 mb=1\n"
            "forward head mb=0\nforward head mb=1\nloss\n");
  EXPECT_EQ(printed(validation_schedule(Order::microbatch_major, 3, 1)),
            "forward embedding mb=0\nforward block.0 mb=0\nforward head mb=0\nloss\n");
}

}  // namespace
}  // namespace strata::test
