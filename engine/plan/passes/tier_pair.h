// The tiers in order: a value that does not fit one is kept on the next, fetched before it is used and
// written back after. The passes residency and prefetch work on one such step of the ladder at a time.
#pragma once

#include <optional>

#include "engine/plan/program/program.h"

namespace strata {

struct TierPair {
  Tier near;  ///< where values are used; their homes are on the tiers beyond it
  Operation fetch, write_back;
  /// A write-back that has this many instructions to run under is not what others wait for.
  std::int32_t write_back_slack;
  /// Brings a value's shards together on the near tier, on the lane comm: a fetch, too, from other ranks.
  std::optional<Operation> gather = {};

  bool gathers(const Instruction& instruction) const {
    return gather == instruction.operation && instruction.lane == Lane::comm;
  }

  bool is_transfer(const Instruction& instruction) const {
    return instruction.operation == fetch || instruction.operation == write_back;
  }
};

inline constexpr TierPair kDevicePair = {Tier::device, Operation::copy_to_device, Operation::copy_to_host, 8,
                                         Operation::all_gather};
inline constexpr TierPair kHostPair = {Tier::host, Operation::read, Operation::write, 2};

}  // namespace strata
