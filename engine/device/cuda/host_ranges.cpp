#include "engine/device/cuda/host_ranges.h"

#include <algorithm>
#include <iterator>

namespace strata {

void HostRanges::add(std::span<std::byte> piece, bool is_locked) {
  const std::lock_guard lock(mutex_);
  pieces_[piece.data()] = {static_cast<Bytes>(piece.size()), is_locked};
}

void HostRanges::remove(const std::byte* first) {
  const std::lock_guard lock(mutex_);
  pieces_.erase(first);
}

HostRanges::Run HostRanges::first_run(const std::byte* host, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  const auto next = pieces_.upper_bound(host);
  if (next != pieces_.begin()) {
    const auto& [first, piece] = *std::prev(next);
    const Bytes left = first + piece.bytes - host;
    if (left > 0) return {.bytes = std::min(bytes, left), .is_staged = !piece.is_locked};
  }
  if (next == pieces_.end()) return {.bytes = bytes};
  return {.bytes = std::min<Bytes>(bytes, next->first - host)};
}

}  // namespace strata
