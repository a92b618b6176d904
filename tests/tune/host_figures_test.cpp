// Ranks of different hosts come to one plan.
#include "engine/run/tune/host_figures.h"

#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/planner/planner.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;

HostFigures figures(double flops, double link, Bytes device, std::optional<Bytes> host) {
  return {.rates = {.flops_per_second = flops,
                    .memory_bytes_per_second = 1e12,
                    .h2d_bytes_per_second = link,
                    .d2h_bytes_per_second = link,
                    .nvme_read_bytes_per_second = 6e9,
                    .nvme_write_bytes_per_second = 4e9,
                    .cores_copy = false},
          .device = device,
          .host = host,
          .nvme = kUnlimited};
}

// Invariant (HostFigures.*): Processes are one run.
TEST(HostFigures, AreTheSmallestOfAllRanks) {
  HostFigures first = figures(1e14, 1e6, kUnlimited, 3 * GiB);
  HostFigures second = figures(1e6, 1e12, (Bytes{1} << 53) + 1, 2 * GiB);
  second.rates.cores_copy = true;
  HostFigures expected = figures(1e6, 1e6, (Bytes{1} << 53) + 1, 2 * GiB);
  expected.rates.cores_copy = true;
  EXPECT_EQ(smallest({first, second}), expected);
  EXPECT_EQ(smallest({second, first}), expected);
}

TEST(HostFigures, LeaveAHostBudgetThatOneRankHasNotToTheComparison) {
  const HostFigures agreed = smallest({figures(1, 1, GiB, 2 * GiB), figures(1, 1, GiB, {})});
  EXPECT_EQ(agreed.host, std::nullopt);
  RunConfig config;
  config.memory.host = 2 * GiB;
  EXPECT_EQ(with_budgets(config, agreed).memory.host, 2 * GiB);
}

TEST(HostFigures, TravelToTheBit) {
  for (const HostFigures& each :
       {figures(1e14 / 3, 0.1, kUnlimited, {}), figures(7e11, 1e9 / 7, (Bytes{1} << 53) + 1, 0)})
    EXPECT_EQ(figures_from_text(to_text(each)), each);
}

TEST(HostFigures, MakeThePlanWhateverThreadsAndProfileTheRunFileNames) {
  const Model model = tiny_model(4);
  RunConfig config = tiny_config({.microbatches = 4});
  config.plan.order.reset();
  config.train.recompute = Recompute::automatic;
  config.memory.device = make_plan(config, model).arena_bytes(Tier::device) / 2;
  RunConfig other = config;
  other.train.threads = 1000;
  other.plan.machine = "no such file";
  other.device.h2d_per_second = 1;
  const MachineRates rates = figures(1e6, 1e12, 0, {}).rates;
  EXPECT_EQ(make_plan(config, model, rates).training.program,
            make_plan(other, model, rates).training.program);
  EXPECT_NE(make_plan(config, model, rates).training.program,
            make_plan(config, model, figures(1e14, 1e6, 0, {}).rates).training.program)
      << "or this test says nothing";
}

}  // namespace
}  // namespace strata
