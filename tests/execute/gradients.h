// The gradients of whole runs, tensor by tensor, and to which experts their tokens go.
#pragma once

#include <map>
#include <string>
#include <vector>

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

/// Runs one instruction at a time on so many ranks.
Watched watch(const Model& model, RunConfig config, int ranks = 1);

/// By tensor: the norm of the difference over that of what was expected.
std::map<std::string, double> relative_differences(const Tensors& expected, const Tensors& found);

/// In the first step of `config` on so many ranks every tensor's gradient is, within 1e-5 of its norm, that
/// of `alone` on one rank.
void expect_equal_gradients(const Model& model, RunConfig alone, RunConfig config, int ranks);

}  // namespace strata::test
