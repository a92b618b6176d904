// Which tokens a text begins with: a trie over bytes whose nodes' children lie side by side. Immutable after
// construction; read from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nth.h"

namespace strata::text {

class ByteTrie {
 public:
  static constexpr std::int32_t kNone = -1;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>>()) {}
  /// The last of equal keys counts. REQUIRES: no key is empty; values are not negative.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  /// Calls `use(bytes, value)` for each key that `text` begins with, shortest first. Returns how many bytes
  /// of the text it has looked at.
  template <typename Use>
  std::size_t for_each_prefix(std::string_view text, const Use& use) const {
    if (text.empty()) return 0;
    std::int32_t node = roots_[static_cast<unsigned char>(text[0])];
    std::size_t bytes = 1;
    for (; node != kNone; ++bytes) {
      const Node& at = nth(nodes_, node);
      if (at.value != kNone) use(bytes, at.value);
      if (bytes == text.size()) break;
      node = child(at, static_cast<std::uint8_t>(text[bytes]));
    }
    return bytes;
  }
  /// Whether any key begins with this byte.
  bool begins_with(char byte) const { return roots_[static_cast<unsigned char>(byte)] != kNone; }

 private:
  struct Node {
    std::int32_t value = kNone;
    std::int32_t first_child = 0;
    std::uint16_t children = 0;
  };
  using Keys = std::span<const std::pair<std::string_view, std::int32_t>>;

  std::int32_t child(const Node& node, std::uint8_t byte) const;

  std::array<std::int32_t, 256> roots_;
  std::vector<Node> nodes_;
  std::vector<std::uint8_t> labels_;  ///< the byte that leads to each node
};

}  // namespace strata::text
