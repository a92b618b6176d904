#include "engine/plan/planner/step_use.h"

#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;

struct TinyRun {
  Model model = tiny_model(6);
  RunConfig config = tiny_config();
  MachineRates rates = planning_rates(config);

  PlannedRun plan(std::int64_t part) {
    config.train.recompute = Recompute::automatic;
    config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / part;
    return plan_run({model_to_plan({"", &config, &model})}, false, rates);
  }
};

TEST(StepUse, CountsAllBytesThatMoveAndStay) {
  TinyRun run;
  const PlannedRun planned = run.plan(3);
  const RankUse use = find_use(planned, run.rates).front();
  Traffic moved;
  for (const KindUse& kind : use.kinds) {
    for (const Link link : kLinks) moved[link] += kind.moved[link];
  }
  const PlannedProgram& program = planned.plans.front().training();
  EXPECT_GT(moved[Link::h2d], 0);
  EXPECT_EQ(moved[Link::h2d], program.moved(Link::h2d));
  EXPECT_EQ(moved[Link::d2h], program.moved(Link::d2h));
  for (const Tier tier : kTiers) {
    Bytes at_peak = 0;
    for (const KindUse& kind : use.kinds) at_peak += kind.at_peak[tier];
    EXPECT_EQ(at_peak, program.use[tier].live_bytes);
  }
  EXPECT_GT(use.kinds[BufferKind::optimizer_state].stays[Tier::host], 0);
}

TEST(StepUse, OfALaneIsWorkAndWaitsThatMakeUpTheStep) {
  TinyRun run;
  const PlannedRun planned = run.plan(3);
  const RankUse use = find_use(planned, run.rates).front();
  ASSERT_FALSE(use.lanes.empty());
  EXPECT_EQ(use.lanes.front().lane, Lane::compute);
  for (const LaneUse& lane : use.lanes) {
    EXPECT_GT(lane.busy, 0);
    EXPECT_NEAR(lane.busy + lane.idle, planned.step.timeline, 1e-9 * planned.step.timeline);
    double waited = 0, longest = 1e9;
    for (const auto& [operation, seconds] : lane.waited) {
      waited += seconds;
      EXPECT_LE(seconds, longest);
      longest = seconds;
    }
    EXPECT_LE(waited, 1.001 * planned.step.timeline);
  }
}

TEST(StepUse, CountsUnitsByWhatTheySave) {
  TinyRun run;
  run.config.train.recompute = Recompute::none;
  const ModelPlan all = make_plan(run.config, run.model);
  EXPECT_EQ(count_saved(all, run.model).all, 6);
  run.config.train.recompute = Recompute::full;
  const ModelPlan none = make_plan(run.config, run.model);
  EXPECT_EQ(count_saved(none, run.model).none, 6);
  EXPECT_EQ(count_saved(none, run.model).all + count_saved(none, run.model).some, 0);
}

}  // namespace
}  // namespace strata
