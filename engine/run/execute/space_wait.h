// The save that ends a run, when the disk is full: what was trained would be lost, so it is tried again
// while somebody makes room.
#pragma once

#include <functional>
#include <string>

#include "collectives/communicator.h"

namespace strata {

struct SpaceWait {
  double seconds = 0;               ///< from the first failure on
  std::function<bool()> has_space;  ///< asked on rank 0: false if another attempt would be in vain
  std::function<bool()> is_over;    ///< asked on rank 0: true if nobody wants to wait any longer
  std::function<void(const std::string& why)> on_wait;  ///< before the first attempt after the failure
  Communicator* ranks = nullptr;
};

/// Performs `save` until it does not lack space; then, or once the time is over, what it threw is thrown. All
/// ranks call it, and meet every few seconds, so that none gives up another.
void save_in_space(const std::function<void()>& save, const SpaceWait& wait);

}  // namespace strata
