// How fast a folder's disk is, by a short measurement with the store's own engine.
#pragma once

#include "offload/block_engine.h"
#include "offload/disk_share.h"
#include "offload/spill_folder.h"

namespace strata {

/// Writes and reads back `bytes` in a file of its own, which is gone afterwards. Throws IoError if that
/// fails.
DiskSpeed measure_disk_speed(const SpillFolder& folder, BlockEngine& engine, Bytes bytes);

/// Equal bytes written and read pass a disk in time 1 / this each: the weight of a disk in a store.
double round_trip_speed(const DiskSpeed& speed);

}  // namespace strata
