// Ids of words that a model has seen lately. Each word has one place, which the last word with that place
// has, so memory is bounded and nothing is allocated. Used by one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace strata::text {

class WordCache {
 public:
  /// Longer words are rarely seen again.
  static constexpr std::size_t kMostBytes = 30;
  static constexpr std::size_t kMostIds = 8;

  WordCache() : words_(kWords) {}

  /// The word's ids; empty if they are not known.
  std::span<const std::int32_t> find(std::string_view word) const {
    if (word.size() > kMostBytes) return {};
    const Word& place = words_[place_of(word)];
    if (place.bytes != word.size() || std::memcmp(place.text.data(), word.data(), word.size()) != 0)
      return {};
    return {place.ids.data(), place.count};
  }

  /// Remembers the word unless it is too long. REQUIRES: the word is not empty.
  void insert(std::string_view word, std::span<const std::int32_t> ids) {
    if (word.size() > kMostBytes || ids.size() > kMostIds) return;
    Word& place = words_[place_of(word)];
    place.bytes = static_cast<std::uint8_t>(word.size());
    place.count = static_cast<std::uint8_t>(ids.size());
    std::ranges::copy(word, place.text.begin());
    std::ranges::copy(ids, place.ids.begin());
  }

 private:
  static constexpr std::size_t kWords = std::size_t{1} << 15;  ///< 2 MiB

  struct alignas(64) Word {  // a line of the processor's cache
    std::uint8_t bytes = 0, count = 0;
    std::array<char, kMostBytes> text;
    std::array<std::int32_t, kMostIds> ids;
  };

  static std::size_t place_of(std::string_view word) { return std::hash<std::string_view>()(word) % kWords; }

  std::vector<Word> words_;
};

}  // namespace strata::text
