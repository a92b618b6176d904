// How the elements of a reduction are shared out among ranks.
#pragma once

#include <algorithm>
#include <cstddef>

namespace strata {

/// One part of `total` elements per rank, in their order: equal ones, but for the last, which may be shorter
/// or empty.
class Parts {
 public:
  Parts(std::size_t total, int ranks)
      : Parts(total, (total + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks)) {}
  /// Parts of `part` elements each, as many as there are ranks.
  static Parts of(std::size_t part, int ranks) { return {part * static_cast<std::size_t>(ranks), part}; }

  std::size_t first(int rank) const { return std::min(total_, static_cast<std::size_t>(rank) * part_); }
  std::size_t count(int rank) const { return first(rank + 1) - first(rank); }
  std::size_t largest() const { return part_; }
  /// The same parts in smaller units.
  Parts scaled(std::size_t factor) const { return {total_ * factor, part_ * factor}; }

 private:
  Parts(std::size_t total, std::size_t part) : total_(total), part_(part) {}

  std::size_t total_, part_;
};

}  // namespace strata
