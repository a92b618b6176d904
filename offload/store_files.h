// The files of a store, and what belongs to each: the map of the store's bytes onto them, their disks'
// shares, checksums.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "offload/disk_share.h"
#include "offload/io_faults.h"
#include "offload/page_checksums.h"
#include "offload/spill_folder.h"
#include "offload/stripe_map.h"

namespace strata {

/// Fixed after it is made; used from the threads of all queues.
struct StoreFiles {
  std::vector<SpillFile> files;
  StripeMap map;
  std::deque<DiskShare> shares = {};  ///< of each file's disk
  std::optional<PageChecksums> checksums = std::nullopt;
  IoFaults* faults = nullptr;
};

}  // namespace strata
