// A small plan and its profile, for tests of what is made of profiles.
#pragma once

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/tools/profile/step_profile.h"
#include "tests/plan/support.h"
#include "tests/support/plans.h"

namespace strata::test {

/// A plan that keeps little on the device, with 1 GB/s on each link and 1 GFLOP/s.
struct Profiled {
  explicit Profiled(Bytes device = 96 * KiB) {
    RunConfig config = test::tiny_config({});
    config.memory.device = device;
    config.memory.host = kUnlimited;
    model = test::tiny_model();
    rates.h2d_bytes_per_second = rates.d2h_bytes_per_second = 1e9;
    rates.flops_per_second = 1e9;
    rates.memory_bytes_per_second = 1e10;
    plan = make_plan(config, model, rates);
    const RankProgram rank = {0, &plan.training.program, &plan.training.dependencies};
    profile = planned_profiles({&rank, 1}, rates).front();
  }

  Model model;
  MachineRates rates;
  ModelPlan plan;
  StepProfile profile;
};

}  // namespace strata::test
