#include "engine/plan/program/byte_ranges.h"

#include <algorithm>

namespace strata {

void ByteRanges::add(Bytes begin, Bytes end) {
  const auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::end);
  if (first == ranges_.end() || first->begin > end) {
    ranges_.insert(first, {begin, end});
    return;
  }
  const auto behind = std::ranges::upper_bound(first, ranges_.end(), end, {}, &Range::begin);
  *first = {std::min(begin, first->begin), std::max(end, (behind - 1)->end)};
  ranges_.erase(first + 1, behind);
}

}  // namespace strata
