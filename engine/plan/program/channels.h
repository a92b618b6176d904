// Where the programs of a run exchange values, so that ranks can open their groups before it: all of them
// together, also those whose own program has no use for one.
#pragma once

#include <set>
#include <tuple>

#include "engine/plan/program/program.h"

namespace strata {

/// A group in which a lane exchanges values; or, of a group, the way of messages from one part to another.
struct Channel {
  std::int32_t group = -1;
  Lane lane = Lane::comm;  ///< of messages Lane::send
  std::int32_t from = -1, to = -1;
  friend bool operator==(const Channel&, const Channel&) = default;
  friend bool operator<(const Channel& a, const Channel& b) {
    return std::tie(a.group, a.lane, a.from, a.to) < std::tie(b.group, b.lane, b.from, b.to);
  }

  bool is_of_messages() const { return from >= 0; }
};

/// That of an instruction that exchanges values, by a rank that is part `part` of the group.
Channel channel_of(const Instruction& instruction, std::int32_t part);

/// Those of the program of a rank, and of others with other places in the same groups.
void add_channels(const Program& program, std::int64_t rank, std::set<Channel>& channels);

}  // namespace strata
