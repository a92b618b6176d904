// The arrows of a trace: each wait of a lane for another's instruction in the same round is a flow of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "engine/plan/cost/timeline.h"
#include "engine/tools/profile/trace_packets.h"

namespace strata {

class WaitFlows {
 public:
  /// Flows have numbers above `last`.
  explicit WaitFlows(std::uint64_t last = 0) : last_(last) {}

  /// Finds those of a round, by the times of its instructions; those that did not run have no flow.
  void find(std::span<const InstructionTime> times);
  /// What the slice of an instruction says of waiting: for what, how long, and the flows that begin and end
  /// with it. `awaited` is the title of what it waited for, if that is known.
  void add_to(SliceFields& fields, std::size_t instruction, const InstructionTime& time,
              std::string_view awaited) const;

  /// What it keeps.
  Bytes bytes() const;

 private:
  std::uint64_t last_;
  std::vector<std::uint64_t> ending_;  ///< by instruction: the flow to it, or 0
  /// By instruction: those that flows from it lead to, as a list: the first, and behind each the next; or -1.
  std::vector<std::int32_t> first_, next_;
};

}  // namespace strata
