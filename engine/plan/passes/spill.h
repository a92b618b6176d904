// Spilling: what does not fit the host goes to the nvme tier and comes to the host, as far as it fits, when
// it is used.
#pragma once

#include <vector>

#include "engine/config/run_config.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/program.h"

namespace strata {

/// Buffers of the host that may live on the nvme tier, those that should leave first at the front: state of
/// the optimizer, from the top unit down (the bottom unit's update is waited for first); gradients, in the
/// order in which they are made; what forward keeps for backward, the longest kept first; parameters, which
/// are wanted most often, from the top unit down. The run file forces kinds there (they come first) or keeps
/// them on the host (they are left out), and so does a pin.
struct SpillOrder {
  std::vector<BufferId> buffers;
  std::size_t forced = 0;  ///< this many, the first ones, must go
};
SpillOrder find_spill_order(const Program& program, const RunConfig::MemorySection& memory);

/// The program with `buffers` on the nvme tier. Every instruction that touches one gets a buffer of its own
/// on the host, read right before where the instruction reads and written right after where it writes: the
/// plain form of the level between host and nvme.
Program spill(const Program& program, const std::vector<BufferId>& buffers);

/// What spill() leaves the host to hold, for any number of buffers from the front of a list, without making
/// the programs. REQUIRES: the program outlives this.
class HostNeeds {
 public:
  HostNeeds(const Program& program, const std::vector<BufferId>& buffers);

  /// near_bytes() of the program with the first `count` on the nvme tier.
  NearBytes with_spilled(std::size_t count) const;

 private:
  const Program& program_;
  std::vector<Lifetime> live_;
  std::vector<std::size_t> number_;  ///< per buffer: its number in the list; others have the largest of all
};

}  // namespace strata
