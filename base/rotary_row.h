// Rows of rotary tables that have two for each place in a text: one of short texts, one of long ones.
#pragma once

#include <cstdint>

namespace strata {

inline constexpr std::int64_t kRotaryRowsOfPlace = 2;

constexpr std::int32_t rotary_row(std::int64_t place, bool in_long_text) {
  return static_cast<std::int32_t>(kRotaryRowsOfPlace * place + (in_long_text ? 1 : 0));
}

}  // namespace strata
