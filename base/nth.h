// Elements by their numbers. Containers count in std::size_t, but numbers of units, buffers and ranks are
// signed, because a negative number means "none", and some tables are in the order of an enum.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

namespace strata {

template <typename E>
concept Enum = std::is_enum_v<E>;
template <typename N>
concept ElementNumber = std::integral<N> || Enum<N>;

/// An enumerator's value as an index.
template <Enum E>
constexpr std::size_t ordinal(E value) {
  return static_cast<std::size_t>(value);
}

/// The element with this number, counted from 0. REQUIRES: 0 <= number < size.
template <typename Range, ElementNumber Number>
constexpr decltype(auto) nth(Range&& range, Number number) {
  return std::forward<Range>(range)[static_cast<std::size_t>(number)];
}

/// `count` elements from `data` on. REQUIRES: 0 <= count.
template <typename T, std::integral Count>
constexpr std::span<T> span_of(T* data, Count count) {
  return {data, static_cast<std::size_t>(count)};
}

/// The number of the element that the iterator of `range` is at; the range's size at its end.
template <typename Range, typename Iterator>
constexpr std::size_t index_of(const Range& range, Iterator at) {
  return static_cast<std::size_t>(std::ranges::distance(std::ranges::begin(range), at));
}

/// A vector or string of `count` elements. REQUIRES: 0 <= count.
template <typename Container, std::integral Count>
constexpr Container sized(Count count, const typename Container::value_type& value = {}) {
  return Container(static_cast<std::size_t>(count), value);
}

/// REQUIRES: 0 <= count.
template <typename Container, std::integral Count>
constexpr void resize(Container& container, Count count, const typename Container::value_type& value = {}) {
  container.resize(static_cast<std::size_t>(count), value);
}

/// `count` elements from `first` on. REQUIRES: they are there.
template <typename Range, std::integral First, std::integral Count>
constexpr auto slice(Range&& range, First first, Count count) {
  return std::span(std::forward<Range>(range))
      .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

}  // namespace strata
