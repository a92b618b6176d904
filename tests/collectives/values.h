// Values that every rank can compute for every other, and what a reduction makes of them, one element at a
// time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "collectives/communicator.h"
#include "tests/collectives/ranks.h"

namespace strata::test {

inline constexpr std::array kReduced = {Element::fp32, Element::bf16, Element::fp64};
inline constexpr std::array kElements = {Element::byte, Element::fp32, Element::bf16, Element::fp64};
inline constexpr std::array kOps = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
/// None, one, less than a vector, odd, and more than a message carries.
inline constexpr std::array<std::size_t, 5> kCounts = {0, 1, 7, 1001, 150'001};

/// body(T()) for the type of `element`.
template <class Body>
void with_element(Element element, Body&& body) {
  switch (element) {
    case Element::byte:
      return body(std::uint8_t());
    case Element::fp32:
      return body(float());
    case Element::bf16:
      return body(bfloat16());
    case Element::fp64:
      return body(double());
  }
}

/// Gives values of both signs, of magnitudes so different that every order of adding them gives other bits.
inline float float_at(int rank, std::size_t index) {
  static const std::vector<float> values = [] {
    const CounterRandom random(11, 1);
    std::vector<float> result(8191);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = random.normal(2 * i) * std::exp2(4 * random.normal(2 * i + 1));
    return result;
  }();
  return values[(static_cast<std::size_t>(rank) * 1009 + index) % values.size()];
}

template <class T>
T value_at(int rank, std::size_t index) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<T>(static_cast<std::size_t>(rank) * 41 + index * 7 + index / 251);
  } else if constexpr (std::is_same_v<T, double>) {
    return 1.1 * static_cast<double>(float_at(rank, index));
  } else {
    return T(float_at(rank, index));
  }
}

/// rank's values with indices from `first` on.
template <class T>
std::vector<T> values_of(int rank, std::size_t first, std::size_t count) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = value_at<T>(rank, first + i);
  return result;
}

/// What the reduction over `ranks` ranks is, by its definition.
template <class T>
std::vector<T> reduced(int ranks, std::size_t first, std::size_t count, ReduceOp op) {
  using Value = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto value = static_cast<Value>(value_at<T>(0, first + i));
    for (int rank = 1; rank < ranks; ++rank) {
      const auto next = static_cast<Value>(value_at<T>(rank, first + i));
      value = op == ReduceOp::sum   ? value + next
              : op == ReduceOp::min ? std::min(value, next)
                                    : std::max(value, next);
    }
    result[i] = T(value);
  }
  return result;
}

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

/// Whether the bits are equal; says where they are not.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& actual, const std::vector<T>& expected) {
  if (actual.size() != expected.size()) return ::testing::AssertionFailure() << "another number of elements";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << actual.size() << " is " << as_double(actual[i]) << " instead of "
             << as_double(expected[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

/// Whether these are the values folded over `ranks` ranks: the bits, or if the order of a sum is free,
/// within its rounding.
template <class T>
::testing::AssertionResult is_fold(const std::vector<T>& actual, int ranks, std::size_t first, ReduceOp op) {
  const std::vector<T> expected = reduced<T>(ranks, first, actual.size(), op);
  if (folds_in_order() || op != ReduceOp::sum) return same_bits(actual, expected);
  const double unit = std::is_same_v<T, bfloat16> ? 0x1p-8 : std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double magnitude = 0;
    for (int rank = 0; rank < ranks; ++rank) magnitude += std::abs(as_double(value_at<T>(rank, first + i)));
    const double error = std::abs(as_double(actual[i]) - as_double(expected[i]));
    if (!(error <= 2 * ranks * unit * magnitude)) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << as_double(actual[i]) << " instead of " << as_double(expected[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

/// For a call in place: `own` at `first` of `count` elements.
template <class T>
std::vector<T> placed(const std::vector<T>& own, std::size_t first, std::size_t count) {
  std::vector<T> result(count);
  std::copy(own.begin(), own.end(), result.begin() + static_cast<std::ptrdiff_t>(first));
  return result;
}

}  // namespace strata::test
