// Sums and products of sizes that a user gives, in part: what 64 bits do not count is an error with a
// sentence, never another number.
#pragma once

#include <concepts>
#include <cstdint>

#include "base/error.h"

namespace strata {

[[noreturn]] inline void refuse_size() {
  throw ConfigError(
      "a size of this run is more than 64 bits count: make the model, train.microbatch or "
      "data.sequence_length smaller");
}

/// Throws ConfigError if the sum is more than an int64 holds.
constexpr std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) refuse_size();
  return sum;
}

/// Throws ConfigError if the product is more than an int64 holds.
template <std::convertible_to<std::int64_t>... Factors>
constexpr std::int64_t checked_product(Factors... factors) {
  std::int64_t product = 1;
  const auto multiply = [&](std::int64_t factor) {
    if (__builtin_mul_overflow(product, factor, &product)) refuse_size();
  };
  (multiply(factors), ...);
  return product;
}

}  // namespace strata
