// How many bytes are live at each of a row of positions, as a binary tree of sums. It raises stretches of
// positions, and finds the latest position with more than a limit, in the logarithm of the positions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace strata {

class LiveBytes {
 public:
  explicit LiveBytes(const std::vector<Bytes>& values);

  /// At each position in [begin, end).
  void add(std::size_t begin, std::size_t end, Bytes bytes);
  /// One behind the latest position before `end` that has more than `limit`; 0: none has.
  std::size_t behind_latest_above(std::size_t end, Bytes limit) const;

 private:
  /// The largest value below it is `largest`, to which the nodes above it add theirs.
  struct Node {
    Bytes largest = 0, added = 0;
  };

  void add(std::size_t node, std::size_t first, std::size_t behind, std::size_t begin, std::size_t end,
           Bytes bytes);
  std::size_t find(std::size_t node, std::size_t first, std::size_t behind, std::size_t end,
                   Bytes limit) const;

  std::size_t leaves_;
  std::vector<Node> nodes_;  ///< [1] is all positions, [2 i] and [2 i + 1] are the halves of [i]
};

}  // namespace strata
