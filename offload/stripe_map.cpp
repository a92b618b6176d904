#include "offload/stripe_map.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "base/nth.h"

namespace strata {
namespace {

constexpr int kLongestCycle = 64;

std::vector<int> blocks_by_weight(std::span<const double> weights) {
  assert(!weights.empty());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int> blocks;
  int divisor = 0;
  for (const double weight : weights) {
    blocks.push_back(std::max(1, static_cast<int>(std::lround(weight / sum * kLongestCycle))));
    divisor = std::gcd(divisor, blocks.back());
  }
  for (int& count : blocks) count /= std::max(1, divisor);
  return blocks;
}

}  // namespace

StripeMap::StripeMap(Bytes bytes, std::span<const double> weights)
    : bytes_(bytes), blocks_per_cycle_(blocks_by_weight(weights)) {
  // Smooth weighted round-robin: each file's turns spread evenly, so that any stretch of the store uses all
  // disks.
  const int cycle = std::accumulate(blocks_per_cycle_.begin(), blocks_per_cycle_.end(), 0);
  std::vector<int> credit(blocks_per_cycle_.size()), turns(blocks_per_cycle_.size());
  for (int turn = 0; turn < cycle; ++turn) {
    for (std::size_t file = 0; file < credit.size(); ++file) credit[file] += blocks_per_cycle_[file];
    const auto next = index_of(credit, std::max_element(credit.begin(), credit.end()));
    credit[next] -= cycle;
    turns_.push_back({static_cast<int>(next), turns[next]++});
  }
}

Bytes StripeMap::file_bytes(int file) const {
  const Bytes whole_cycles = bytes_ / (cycle() * kStoreBlock);
  Bytes bytes = whole_cycles * nth(blocks_per_cycle_, file) * kStoreBlock;
  for (Bytes offset = next_in(file, whole_cycles * cycle() * kStoreBlock, bytes_); offset < bytes_;) {
    const Bytes length = piece(offset, bytes_).length;
    bytes += length;
    offset = next_in(file, offset + length, bytes_);
  }
  return bytes;
}

double StripeMap::fraction(int file) const {
  return static_cast<double>(nth(blocks_per_cycle_, file)) / static_cast<double>(cycle());
}

StripePiece StripeMap::piece(Bytes offset, Bytes end) const {
  const std::int64_t block = offset / kStoreBlock;
  const Turn& turn = nth(turns_, block % cycle());
  const std::int64_t file_block = block / cycle() * nth(blocks_per_cycle_, turn.file) + turn.index;
  return {.offset = offset,
          .file = turn.file,
          .file_offset = file_block * kStoreBlock + offset % kStoreBlock,
          .length = std::min(end, (block + 1) * kStoreBlock) - offset};
}

Bytes StripeMap::next_in(int file, Bytes offset, Bytes end) const {
  while (offset < end && nth(turns_, offset / kStoreBlock % cycle()).file != file)
    offset = (offset / kStoreBlock + 1) * kStoreBlock;
  return std::min(offset, end);
}

}  // namespace strata
