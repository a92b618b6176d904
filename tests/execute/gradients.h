// What whole runs compute: losses, gradients tensor by tensor, and to which experts their tokens go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/config/run_config.h"
#include "tests/execute/routing_device.h"
#include "tests/execute/support.h"

namespace strata::test {

/// What a run computes on the way, put together from all ranks.
struct Watched {
  Tensors gradients;  ///< of the first step, as ranks update with them
  /// Per unit, of all steps' forward passes: how many tokens go to which experts.
  std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::int64_t>> routes;
  std::string state_hash;
};

/// Runs one instruction at a time on `ranks` ranks.
Watched watch(const Model& model, RunConfig config, int ranks = 1);

/// Expects that in the first step of `config` on `ranks` ranks every tensor's gradient is, within 1e-5 of its
/// norm, that of `alone` on one rank.
void expect_equal_gradients(const Model& model, RunConfig alone, RunConfig config, int ranks);

struct ComparedRuns {
  RunOutcome alone;
  std::vector<RunOutcome> ranks;
};
/// Trains `config` on `ranks` ranks, and `alone` on one. Expects that losses of all steps and validations and
/// the first step's gradients agree within 1e-5, that the ranks have one state, and that their plans were
/// exact.
ComparedRuns expect_equal_runs(const RunConfig& alone, const RunConfig& config, int ranks);
/// expect_equal_runs() of two ranks that share batches, layers, layers and tokens, a pipeline, and sequences.
void expect_one_run_on_two_ranks(const RunConfig& alone);
/// The norms of all steps' gradients agree within 1e-4.
void expect_equal_norms(const std::vector<RunOutcome>& ranks, const RunOutcome& alone);

}  // namespace strata::test
