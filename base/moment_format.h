// How what an optimizer keeps of earlier steps is stored.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/nth.h"

namespace strata {

enum class MomentFormat : std::uint8_t {
  fp32,
  bf16,  ///< rounded at random: optim/stochastic_rounding.h
  coded  ///< 8 bits, with a scale for each block of neighbours: optim/moment_codes.h
};

constexpr std::string_view name_of(MomentFormat format) {
  constexpr std::array<std::string_view, 3> kNames = {"fp32", "bf16", "8bit"};
  return nth(kNames, format);
}

}  // namespace strata
