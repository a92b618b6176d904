#include "engine/plan/passes/live_bytes.h"

#include <algorithm>
#include <bit>

namespace strata {

LiveBytes::LiveBytes(const std::vector<Bytes>& values)
    : leaves_(std::bit_ceil(std::max<std::size_t>(values.size(), 1))), nodes_(2 * leaves_) {
  for (std::size_t i = 0; i < values.size(); ++i) nodes_[leaves_ + i].largest = values[i];
  for (std::size_t node = leaves_ - 1; node > 0; --node)
    nodes_[node].largest = std::max(nodes_[2 * node].largest, nodes_[2 * node + 1].largest);
}

void LiveBytes::add(std::size_t begin, std::size_t end, Bytes bytes) {
  if (begin < end) add(1, 0, leaves_, begin, end, bytes);
}

void LiveBytes::add(std::size_t node, std::size_t first, std::size_t behind, std::size_t begin,
                    std::size_t end, Bytes bytes) {
  if (end <= first || behind <= begin) return;
  if (begin <= first && behind <= end) {
    nodes_[node].largest += bytes;
    nodes_[node].added += bytes;
    return;
  }
  const std::size_t middle = first + (behind - first) / 2;
  add(2 * node, first, middle, begin, end, bytes);
  add(2 * node + 1, middle, behind, begin, end, bytes);
  nodes_[node].largest =
      nodes_[node].added + std::max(nodes_[2 * node].largest, nodes_[2 * node + 1].largest);
}

std::size_t LiveBytes::behind_latest_above(std::size_t end, Bytes limit) const {
  return find(1, 0, leaves_, end, limit);
}

std::size_t LiveBytes::find(std::size_t node, std::size_t first, std::size_t behind, std::size_t end,
                            Bytes limit) const {
  if (end <= first || nodes_[node].largest <= limit) return 0;
  if (behind == first + 1) return behind;
  const std::size_t middle = first + (behind - first) / 2;
  const Bytes rest = limit - nodes_[node].added;
  const std::size_t found = find(2 * node + 1, middle, behind, end, rest);
  return found > 0 ? found : find(2 * node, first, middle, end, rest);
}

}  // namespace strata
