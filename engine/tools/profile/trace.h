// Profiles as a trace that Perfetto's viewer opens (https://ui.perfetto.dev): its TrackEvent protobuf.
#pragma once

#include <span>
#include <string>

#include "engine/tools/profile/step_profile.h"
#include "engine/tools/profile/trace_packets.h"

namespace strata {

/// Profiles that one process of the trace shows.
struct TraceGroup {
  std::string name;  ///< "planned"
  std::span<const StepProfile> profiles;
};

/// The bytes of a trace file. Each profile is a process, with a thread for each lane. A lane's slices are its
/// instructions. Flows lead from what an instruction waited for. Counters show each tier's memory, in all and
/// of each kind.
std::string make_trace(std::span<const TraceGroup> groups);

/// What a slice says of an instruction, whenever it runs: its title, FLOPs, bytes.
void add_instruction(SliceFields& fields, const Program& program, std::int32_t number);
std::int64_t nanoseconds(double seconds);

}  // namespace strata
