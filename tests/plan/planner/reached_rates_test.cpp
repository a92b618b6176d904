// No step takes less than its bound by rates that are raised to what the step did.
#include "engine/plan/planner/reached_rates.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/plan/planner/run_certificate.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

struct Reached {
  Model model;
  std::vector<Plan> plans;
  MachineRates rates;
  double planned = 0;  ///< seconds of a step

  std::vector<ModelToPlan> models() const { return {{.name = "", .model = &model, .request = {}}}; }
};

Reached reached_run(std::mt19937& random) {
  const auto number = [&](std::int64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  Reached run{.model = tiny_model(1 + number(4)), .plans = {}, .rates = {}};
  RunConfig config = tiny_config({.microbatches = 1 + number(4), .clips = number(2) == 0});
  config.parallel.pipeline = 1 + number(2);
  if (number(2) == 0) config.memory.device = (64 + number(100)) * KiB;
  run.rates = random_rates(random);
  run.plans = make_plans(config, run.model, run.rates);
  run.planned = estimate_step(run.plans, LaneMode::overlapped, run.rates).seconds;
  return run;
}

TEST(ReachedRates, LeaveNoStepBelowItsBoundAndNoShareAboveOne) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const Reached run = reached_run(random);
    for (const double share : {0.01, 0.3, 0.9, 1.0, 3.0}) {
      const double seconds = share * run.planned * (1 + 1e-9);
      const MachineRates rates = reached_rates(run.rates, run.plans, run.models(), seconds);
      EXPECT_LE(certify(run.plans, run.models(), rates).seconds, seconds * (1 + 1e-9)) << seed;
      for (const Plan& plan : run.plans) {
        EXPECT_LE(step_needs(plan, rates).longest(), seconds * (1 + 1e-9)) << seed;
        EXPECT_LE(plan.only().flops.model / (seconds * rates.flops_per_second), 1 + 1e-9) << seed;
      }
    }
  }
}

TEST(ReachedRates, RiseOnlyWhereTheRunWasFaster) {
  std::mt19937 random(3);
  const Reached run = reached_run(random);
  const StepNeeds needs = step_needs(run.plans.front(), run.rates);
  const MachineRates none = reached_rates(run.rates, run.plans, run.models(), 0);
  EXPECT_EQ(none, run.rates);
  const MachineRates slow = reached_rates(run.rates, run.plans, run.models(), 100 * needs.longest());
  EXPECT_EQ(slow, run.rates);
}

}  // namespace
}  // namespace strata::test
