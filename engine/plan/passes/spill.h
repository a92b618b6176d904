// Spilling: what does not fit the host goes to the nvme tier and comes to the host, as far as it fits, when
// it is used.
#pragma once

#include <vector>

#include "base/enum_array.h"
#include "engine/config/choices.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/program.h"

namespace strata {

/// Where a run wants what is not on the device; counts for parameters, gradients, optimizer state and
/// activations.
using TierChoices = EnumArray<BufferKind, TierChoice>;

/// Buffers of the host that may live on the nvme tier. Those that should leave first stand first:
/// 1. optimizer state, from the top unit down, since the bottom unit's update is waited for first;
/// 2. gradients, in the order in which they are made;
/// 3. activations kept for backward passes, the longest kept first;
/// 4. parameters, which are wanted most often, from the top unit down.
/// Kinds that are wanted there come first. Kinds that are wanted on the host, and pins, are left out.
struct SpillOrder {
  std::vector<BufferId> buffers;
  std::size_t forced = 0;  ///< this many, the first ones, must go
};
SpillOrder find_spill_order(const Program& program, const TierChoices& wanted);

/// The program with `buffers` on the nvme tier. Every instruction that touches one gets a buffer of its own
/// on the host. The buffer is read right before the instruction reads it, and written right after the
/// instruction writes it. This is the plain form of the step between host and nvme.
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
