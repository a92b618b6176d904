// Ranks that are threads of one process and exchange values from memory to memory: each rank reads the
// others' memory while they wait. Multi-rank tests run on it without a launcher, and what happens when a rank
// is late, fails or dies is studied on it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/comm_faults.h"
#include "collectives/communicator.h"

namespace strata {

struct ThreadCommunicatorOptions {
  double watchdog_seconds = 900;  ///< a call waits for another rank no longer
  CommFaults* faults = nullptr;   ///< outlives the communicators
};

/// The communicators of ranks 0 … ranks - 1. Each is used by the thread that is its rank, and may be
/// destroyed by any. REQUIRES: ranks ≥ 1.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, const ThreadCommunicatorOptions& options = {});

}  // namespace strata
