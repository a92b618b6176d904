// How exact weights are kept beside parameters that are not fp32.
#pragma once

#include <cstdint>

namespace strata {

enum class MasterFormat : std::uint8_t {
  fp32,   ///< whole
  split,  ///< 16 bits, whose high halves are the bf16 parameters: optim/split_master.h
  none    ///< not: bf16 parameters are updated themselves, and rounded at random
};

}  // namespace strata
