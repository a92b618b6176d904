#include "engine/input/text/byte_trie.h"

#include <algorithm>
#include <deque>

namespace strata::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys) : nodes_(1), labels_(1) {
  std::ranges::stable_sort(keys, {}, [](const auto& key) { return key.first; });
  struct Open {
    std::size_t node;
    Keys keys;  ///< those that begin with what leads to the node
    std::size_t depth;
  };
  std::deque<Open> open{{0, keys, 0}};
  while (!open.empty()) {
    const auto [node, below, depth] = open.front();
    open.pop_front();
    std::size_t i = 0;
    for (; i < below.size() && below[i].first.size() == depth; ++i) nodes_[node].value = below[i].second;
    nodes_[node].first_child = static_cast<std::int32_t>(nodes_.size());
    while (i < below.size()) {
      const char byte = below[i].first[depth];
      std::size_t end = i;
      while (end < below.size() && below[end].first[depth] == byte) ++end;
      open.push_back({nodes_.size(), below.subspan(i, end - i), depth + 1});
      nodes_.emplace_back();
      labels_.push_back(static_cast<std::uint8_t>(byte));
      ++nodes_[node].children;
      i = end;
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    roots_[byte] = child(nodes_[0], static_cast<std::uint8_t>(byte));
}

std::int32_t ByteTrie::child(const Node& node, std::uint8_t byte) const {
  const auto begin = labels_.begin() + node.first_child;
  const auto found = std::lower_bound(begin, begin + node.children, byte);
  if (found == begin + node.children || *found != byte) return kNone;
  return static_cast<std::int32_t>(found - labels_.begin());
}

}  // namespace strata::text
