// The smallest budgets that a refusal names, taken at their word by real runs.
#include <gtest/gtest.h>

#include <functional>

#include "engine/config/run_config.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::TemporaryFolder;
using test::tiny_run;

// Invariant: A refusal names a budget that works.
TEST(SmallestBudgetOfARun, IsEnoughAndChangesNoBit) {
  const std::vector<std::function<void(RunConfig&)>> variants = {
      [](RunConfig& config) { config.memory.activations = TierChoice::device; },
      [](RunConfig& config) { config.memory.gradients = TierChoice::device; },
      [](RunConfig& config) { config.memory.parameters = TierChoice::device; },
      [](RunConfig& config) { config.memory.optimizer_state = TierChoice::device; },
      [](RunConfig& config) { config.memory.host.reset(); },
      [](RunConfig& config) { config.optimizer.clip_norm = 0; },
      [](RunConfig& config) { config.train.recompute = Recompute::none; }};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    SCOPED_TRACE(i);
    const TemporaryFolder folder;
    RunConfig config = tiny_run(folder.path());
    config.train.steps = 2;
    config.plan.order = Order::layer_major;
    config.train.validate_every = 2;
    config.train.validation_batches = 9;
    config.data.validation_fraction = 0.5;
    variants[i](config);
    const std::string expected = run(config).result.state_hash;
    config.memory.device = smallest_bytes(config);
    if (config.memory.host) config.memory.host = smallest_host_bytes(config);
    const test::RunOutcome outcome = run(config);
    EXPECT_EQ(outcome.result.state_hash, expected);
    expect_the_plan_was_exact(outcome);
  }
}

}  // namespace
}  // namespace strata
