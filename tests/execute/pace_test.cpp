// Computing and exchanges that a run file slows down, to study how lanes and ranks wait for one another.
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "tests/execute/support.h"

namespace strata {
namespace {

using test::run_ranks;
using test::RunOutcome;

double busy_seconds(const RunOutcome& outcome, Lane lane) {
  return outcome.result.measured.busy_seconds[lane];
}

TEST(Pace, SlowsLanesDownAndChangesNoBit) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.train.steps = 2;
  config.train.threads = 1;
  config.parallel.tensor = 2;
  const RunOutcome free = run_ranks(config, 2)[0];
  const Program& program = free.plan.training().program;
  Bytes sent = 0;
  for (const Instruction& instruction : program.instructions)
    sent += instruction.lane == Lane::tensor ? instruction.exchange.sent : 0;
  constexpr double kSeconds = 0.2;  // of each step, on either lane
  config.device.sent_per_second = static_cast<Bytes>(static_cast<double>(sent) / kSeconds);
  config.device.flops_per_second = executed_flops(program) / kSeconds;
  for (const RunOutcome& slow : run_ranks(config, 2)) {
    EXPECT_EQ(slow.result.state_hash, free.result.state_hash);
    for (const Lane lane : {Lane::tensor, Lane::compute}) EXPECT_GE(busy_seconds(slow, lane), 2 * kSeconds);
  }
}

/// The receiver of a message waits until it has come over the slow link.
TEST(Pace, HoldsUpThePeerOfASlowLink) {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.train.steps = 1;
  config.train.threads = 1;
  config.parallel.pipeline = 2;
  const Bytes sent = run_ranks(config, 2)[0].plan.training().moved(Link::send);
  constexpr double kSeconds = 0.4;
  config.device.sent_per_second = static_cast<Bytes>(static_cast<double>(sent) / kSeconds);
  EXPECT_GE(busy_seconds(run_ranks(config, 2)[1], Lane::receive), 0.9 * kSeconds);
}

}  // namespace
}  // namespace strata
