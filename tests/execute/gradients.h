// The gradients of whole runs, tensor by tensor.
#pragma once

#include "tests/execute/support.h"

namespace strata::test {

/// In the first step of `config` on so many ranks every tensor's gradient is, within 1e-5 of its norm, that
/// of `alone` on one rank.
void expect_equal_gradients(const Model& model, RunConfig alone, RunConfig config, int ranks);

}  // namespace strata::test
