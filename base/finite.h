// Finds the first value that is no finite number: weights that a run has spoilt, or a file that was.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"

namespace strata {

/// A number that must be finite is none: names it and where it stands. Exit status 1.
struct NotFiniteError : IoError {
  using IoError::IoError;
};

inline bool is_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  return (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
}

/// The number of the first value that is not finite; nothing if all are.
inline std::optional<std::ptrdiff_t> first_not_finite(std::span<const float> values) {
  constexpr std::size_t kPiece = 4096;  // looked through without a branch
  for (std::size_t begin = 0; begin < values.size(); begin += kPiece) {
    const auto piece = values.subspan(begin, std::min(kPiece, values.size() - begin));
    bool are_finite = true;
    for (const float value : piece) are_finite &= is_finite(value);
    if (are_finite) continue;
    const auto found = std::ranges::find_if_not(piece, is_finite);
    return static_cast<std::ptrdiff_t>(begin) + (found - piece.begin());
  }
  return std::nullopt;
}

}  // namespace strata
