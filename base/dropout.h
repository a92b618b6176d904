// Which elements dropout keeps: a function of where an element stands in the run, so that any device, any
// order and any layout of ranks decides alike, and a pass that is computed again, too. It is constexpr, so
// that CUDA code may use it.
#pragma once

#include <cstdint>

namespace strata {

/// The key of a row that loses nothing and is not multiplied either: in validation.
constexpr std::int32_t kWithoutDropout = -1;

/// A hash of 32 bits that spreads every bit of x over all (the finaliser of murmur3; Appleby 2011).
constexpr std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

/// What stands for a row at one of the model's sites. `key` is the row's own: one number for each token of
/// the run.
constexpr std::uint32_t dropout_row(std::int32_t key, std::uint32_t site) {
  return mixed(static_cast<std::uint32_t>(key) ^ mixed(site + 0x9e3779b9U));
}

/// The smallest word with which an element is kept; 0: every element is.
constexpr std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 0x1p32);
}

/// Whether element `column` of a row is kept.
constexpr bool is_kept(std::uint32_t row, std::int64_t column, std::uint32_t threshold) {
  return mixed(row ^ mixed(static_cast<std::uint32_t>(column) + 0x85ebca77U)) >= threshold;
}

/// By what an element that is kept is multiplied.
constexpr float dropout_factor(float probability) {
  return 1.0F / (1.0F - probability);
}

}  // namespace strata
