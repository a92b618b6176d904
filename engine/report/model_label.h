// A model of a run, as people know it.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

struct ModelLabel {
  std::string name;
  std::int64_t steps = 0;  ///< train.steps
  std::int64_t tokens_per_step = 0;
};

}  // namespace strata
