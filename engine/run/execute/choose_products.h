// Before a run takes its memory, the device's choice of an algorithm for each of its products is read from
// the table that the run file names. What the table lacks is timed and added, so that later runs have the
// same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "engine/model/graph/unit_memory.h"

namespace strata {

struct Model;

/// The passes whose products are chosen.
struct ProductsOf {
  const Model& model;
  DType precision;
  MicrobatchShape microbatch;
};

/// What was chosen; empty if there is no table, or nothing to choose.
struct ChosenProducts {
  std::string table = {};     ///< path
  std::int64_t products = 0;  ///< of this rank
  std::int64_t timed = 0;     ///< of them now
  double seconds = 0;         ///< that took, with waiting for other processes that did the same
  std::string hash = {};      ///< of what all ranks use: equal hashes, equal algorithms

  /// "37 by out/products.txt, 7 of them timed now in 1.2 s; hash 0f97…"; empty if there is no table.
  std::string describe() const;
};

/// Every rank calls it, with a table or without; null is a run of one. Several processes may share a table:
/// one at a time adds to it, the others wait. Where the tables of ranks disagree, the first rank's counts, so
/// that ranks with the same GPU and products have the same bits. `path` may be a link; nothing is written
/// through one beside it. Throws ConfigError if the table is damaged, or has an algorithm that the library
/// does not take: then it is left as it is, since timing again could change a run's bits. Throws DeviceError
/// if there is no memory for one product.
ChosenProducts choose_products(Device& device, const std::string& path, std::span<const ProductsOf> models,
                               Communicator* ranks);

}  // namespace strata
