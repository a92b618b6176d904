// Scenarios of norms of heads, as in kernel_scenarios.h.
#pragma once

#include "tests/device/kernel_scenarios.h"

namespace strata {

struct HeadNormCase {
  std::int64_t batch, sequence;
  std::int64_t keys, queries_per_key;  ///< heads of keys, and of queries for each of them
  std::int64_t dimension;
  std::int64_t padding_unit = 1;
  bool rotated = true, unit_offset = false;
  Documents documents = {};
};

/// Forward, and backward from other values and deviations than the forward's.
Scenario head_norm_scenario(DType dtype, const HeadNormCase& heads);

}  // namespace strata
