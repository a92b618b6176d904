// Merges by the two tokens that they join: open addressing in one array, since every pair of neighbours in
// every new word is looked up. Immutable after the last insert; read from any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::text {

struct Merge {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint32_t rank = kNone;  ///< the lower, the sooner
  std::int32_t id = 0;         ///< of the joined token
};

class PairTable {
 public:
  explicit PairTable(std::size_t merges = 0) : slots_(std::bit_ceil(2 * merges + 2)) {}

  /// Replaces the merge of this pair if there is one. REQUIRES: at most as many pairs as the constructor was
  /// told.
  void insert(std::int32_t left, std::int32_t right, Merge merge) {
    slots_[slot_of(left, right)] = {key(left, right), merge};
  }

  /// Its rank is kNone if the pair is not merged.
  Merge find(std::int32_t left, std::int32_t right) const { return slots_[slot_of(left, right)].merge; }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: ids are not negative

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }

  /// Where the pair is, or would be.
  std::size_t slot_of(std::int32_t left, std::int32_t right) const {
    const std::uint64_t wanted = key(left, right);
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing: the high bits of a product with 2^64 over the golden ratio.
    std::size_t slot = (wanted * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (slots_[slot].key != wanted && slots_[slot].key != kEmpty) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_;
};

}  // namespace strata::text
