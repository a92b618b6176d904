// A larger budget never makes a step longer: what fits the smaller one fits the larger one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/place/search.h"
#include "engine/plan/planner/planned_run.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

/// STRATA_TEST_BUDGETS sets another number.
std::uint32_t count_of_runs() {
  const char* const count = std::getenv("STRATA_TEST_BUDGETS");
  return count == nullptr ? 4 : static_cast<std::uint32_t>(std::atoi(count));
}

struct RandomRun {
  Model model;
  RunConfig config;
  MachineRates rates;
  Bytes least = 0;  ///< budget of the device

  double seconds_with(Bytes device) const {
    RunConfig with = config;
    with.memory.device = device;
    return find_run({model_to_plan({"", &with, &model})}, false, rates)->step.seconds;
  }
};

RandomRun random_run(std::mt19937& random) {
  const auto number = [&](std::int64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  RandomRun run{.model = tiny_model(1 + number(5), number(2) == 0),
                .config = tiny_config({.precision = number(2) == 0 ? DType::fp32 : DType::bf16,
                                       .microbatches = 1 + number(5),
                                       .clips = number(2) == 0}),
                .rates = {}};
  run.config.plan.order.reset();
  run.config.train.recompute = Recompute::automatic;
  run.rates = random_rates(random);
  run.least = smallest_device_bytes(run.config, run.model);
  return run;
}

/// Rates are known to some percent, and a search stops at what it cannot tell from the best by more than 1 %.
constexpr double kAlike = 1.02;

TEST(LargerBudgetsLongTest, PlanNoLongerStepWithAnEighthMore) {
  for (std::uint32_t seed = 1; seed <= count_of_runs(); ++seed) {
    std::mt19937 random(seed);
    const RandomRun run = random_run(random);
    Bytes device = run.least + run.least * static_cast<Bytes>(random() % 1000) / 1000;
    double before = run.seconds_with(device);
    for (int more = 0; more < 4; ++more) {
      device += device / 8;
      const double now = run.seconds_with(device);
      EXPECT_LE(now, before * kAlike) << "seed " << seed << ", " << device << " bytes";
      before = now;
    }
  }
}

TEST(LargerBudgetsLongTest, PlanNoLongerStepAtRandom) {
  int planned = 0, longer = 0;
  double most = 0;
  for (std::uint32_t seed = 1; seed <= count_of_runs(); ++seed) {
    std::mt19937 random(seed);
    const RandomRun run = random_run(random);
    std::vector<Bytes> budgets;
    for (int b = 0; b < 6; ++b)
      budgets.push_back(
          align_up(run.least + run.least * static_cast<Bytes>(random() % 1000) / 250, kBufferAlignment));
    std::ranges::sort(budgets);
    double before = run.seconds_with(budgets.front());
    for (const Bytes budget : budgets) {
      const double now = run.seconds_with(budget);
      EXPECT_LE(now, before * kAlike) << "seed " << seed << ", " << budget << " bytes";
      ++planned;
      longer += now > before * (1 + 1e-9) ? 1 : 0;
      most = std::max(most, now / before - 1);
      before = std::min(before, now);
    }
  }
  fmt::print("{} plans, {} longer than with less, by {:.2f} % at most\n", planned, longer, 100 * most);
}

}  // namespace
}  // namespace strata::test
