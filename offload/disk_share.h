// Admission above the rings: how much each transfer may have in flight on a disk, so that reads and writes
// together never ask for more than the disk's time.
#pragma once

#include <algorithm>
#include <atomic>

#include "offload/block_engine.h"
#include "offload/stripe_map.h"

namespace strata {

/// Operations of a transfer in flight on each disk. By measurement: bench/history.
constexpr int kDepthPerDisk = 16;

/// Bytes per second.
struct DiskSpeed {
  double read = 1, write = 1;
};

/// One per file, used from the threads of all queues. Its budget is the time that the slower direction takes
/// for kDepthPerDisk blocks; n transfers get an n-th of it each, whatever their direction. So in flight are
/// bytes read / read speed + bytes written / write speed <= budget, as soon as those that came first have
/// sunk to their new share. A transfer that is alone has the full depth in either direction. A transfer waits
/// for nothing but operations of its own, so none can starve.
class DiskShare {
 public:
  explicit DiskShare(const DiskSpeed& speed)
      : budget_seconds_(kDepthPerDisk * static_cast<double>(kStoreBlock) / std::min(speed.read, speed.write)),
        speed_(speed) {}

  void join() { transfers_.fetch_add(1, std::memory_order_relaxed); }
  void leave() { transfers_.fetch_sub(1, std::memory_order_relaxed); }

  int transfers() const { return transfers_.load(std::memory_order_relaxed); }
  /// What one of the transfers that joined may have in flight now; at least a block.
  Bytes bytes_in_flight(Direction direction) const {
    const double speed = direction == Direction::read ? speed_.read : speed_.write;
    const double share = budget_seconds_ / std::max(1, transfers());
    return std::max(static_cast<Bytes>(speed * share), kStoreBlock);
  }

 private:
  double budget_seconds_;
  DiskSpeed speed_;
  std::atomic<int> transfers_ = 0;
};

}  // namespace strata
