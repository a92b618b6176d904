// An array with a value for each enumerator. The enum says what its enumerators are, in its header:
//
//   enum class Tier : std::uint8_t { device, host, nvme };
//   inline constexpr std::array kTiers = {Tier::device, Tier::host, Tier::nvme};
//   constexpr const auto& values_of(Tier) { return kTiers; }
#pragma once

#include <array>
#include <cstddef>

#include "base/nth.h"

namespace strata {

/// An enum whose enumerators values_of() gives.
template <typename E>
concept ListedEnum = requires {
  values_of(E{}).size();
};

/// Whether the enumerators have the values 0, 1, 2, ... in that order.
template <ListedEnum E>
constexpr bool counts_from_zero() {
  std::size_t number = 0;
  for (const E value : values_of(E{})) {
    if (ordinal(value) != number++) return false;
  }
  return true;
}

/// Values of enumerators, zero unless they are given in the enumerators' order: {1, 2, 3}.
template <ListedEnum E, typename T>
struct EnumArray {
  static_assert(counts_from_zero<E>());
  std::array<T, values_of(E{}).size()> values = {};

  constexpr T& operator[](E key) { return nth(values, key); }
  constexpr const T& operator[](E key) const { return nth(values, key); }

  constexpr auto begin() { return values.begin(); }
  constexpr auto begin() const { return values.begin(); }
  constexpr auto end() { return values.end(); }
  constexpr auto end() const { return values.end(); }
  static constexpr std::size_t size() { return values_of(E{}).size(); }

  /// visit(key, value) for each enumerator, in their order.
  template <typename Visit>
  constexpr void for_each(const Visit& visit) {
    for (const E key : values_of(E{})) visit(key, (*this)[key]);
  }
  template <typename Visit>
  constexpr void for_each(const Visit& visit) const {
    for (const E key : values_of(E{})) visit(key, (*this)[key]);
  }

  friend constexpr bool operator==(const EnumArray&, const EnumArray&) = default;
};

/// An EnumArray that is given a value for each enumerator: with one too few it does not compile.
template <ListedEnum E, typename T>
struct EnumTable : EnumArray<E, T> {
  template <typename... Values>
  requires(sizeof...(Values) == EnumArray<E, T>::size()) constexpr EnumTable(Values... values)
      : EnumArray<E, T>{{T(values)...}} {}  // NOLINT: as {1, 2, 3}
};

}  // namespace strata
