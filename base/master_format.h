// How exact weights are kept beside parameters that are not fp32.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/nth.h"

namespace strata {

enum class MasterFormat : std::uint8_t {
  fp32,   ///< whole
  split,  ///< 16 bits, whose high halves are the bf16 parameters: optim/split_master.h
  none    ///< not: bf16 parameters are updated themselves, and rounded at random
};

constexpr std::string_view name_of(MasterFormat format) {
  constexpr std::array<std::string_view, 3> kNames = {"fp32", "split", "none"};
  return nth(kNames, format);
}

}  // namespace strata
