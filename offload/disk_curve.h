// How fast a folder's disk is by block size and depth: what a person looks at to judge it, and where the
// store's own block and depth lie on it.
#pragma once

#include <string>
#include <vector>

#include "offload/disk_share.h"

namespace strata {

struct CurvePoint {
  Bytes block = 0;  ///< bytes of one operation
  int depth = 0;    ///< operations in flight
  DiskSpeed speed;
};

/// Writes and reads a file of `bytes` in `folder` at every block size and depth, with the engine that a store
/// would use. Takes a second or so per point; the file is gone afterwards. Throws ConfigError if a store
/// could not use the folder (missing, in use, without O_DIRECT, too small), IoError if a transfer fails.
std::vector<CurvePoint> measure_disk_curve(const std::string& folder, Bytes bytes,
                                           const std::vector<Bytes>& blocks, const std::vector<int>& depths);

/// Why io_uring cannot be used here; empty: it can.
std::string why_no_io_uring();

}  // namespace strata
