#include "engine/profile/trace.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

namespace strata {
namespace {

// Numbers of fields and values, from perfetto's protos/perfetto/trace/.
namespace trace {
constexpr protozero::pbf_tag_type kPacket = 1;
}
namespace packet {
constexpr protozero::pbf_tag_type kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13,
                                  kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;
}  // namespace packet
namespace descriptor {
constexpr protozero::pbf_tag_type kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
constexpr protozero::pbf_tag_type kPid = 1, kProcessName = 6, kThreadPid = 1, kThreadId = 2, kThreadName = 5;
constexpr protozero::pbf_tag_type kCounterUnit = 3;
constexpr std::int32_t kBytesUnit = 3;
}  // namespace descriptor
namespace event {
constexpr protozero::pbf_tag_type kAnnotation = 4, kType = 9, kTrack = 11, kName = 23, kCounterValue = 30,
                                  kFlows = 47, kEndingFlows = 48;
constexpr std::int32_t kBegin = 1, kEnd = 2, kCounterType = 4;
}  // namespace event
namespace annotation {
constexpr protozero::pbf_tag_type kName = 10, kInt = 4, kDouble = 5, kString = 6;
}

constexpr std::uint32_t kSequence = 1;

std::uint64_t nanoseconds(double seconds) {
  return static_cast<std::uint64_t>(std::llround(seconds * 1e9));
}

void annotate(protozero::pbf_writer& event, const char* name, protozero::pbf_tag_type tag,
              const auto& value) {
  protozero::pbf_writer one(event, event::kAnnotation);
  one.add_string(annotation::kName, name);
  if constexpr (std::is_convertible_v<decltype(value), std::string>) {
    one.add_string(tag, value);
  } else if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
    one.add_double(tag, value);
  } else {
    one.add_int64(tag, value);
  }
}

class TraceWriter {
 public:
  TraceWriter() : trace_(bytes_) {
    protozero::pbf_writer first(trace_, trace::kPacket);
    first.add_uint32(packet::kSequence, kSequence);
    first.add_uint32(packet::kSequenceFlags, packet::kStateCleared);
  }

  void add(const std::string& group, const StepProfile& profile) {
    const std::int32_t pid = ++processes_;
    const std::uint64_t process = ++tracks_;
    add_track([&](protozero::pbf_writer& track) {
      track.add_uint64(descriptor::kUuid, process);
      protozero::pbf_writer named(track, descriptor::kProcess);
      named.add_int32(descriptor::kPid, pid);
      named.add_string(descriptor::kProcessName,
                       profile.name.empty() ? group : fmt::format("{} {}", group, profile.name));
    });
    number_flows(profile);
    for (const Lane lane : kLanes) add_lane(profile, lane, pid);
    for (const Tier tier : kTiers) add_memory(profile, tier, process);
  }

  std::string take() { return std::move(bytes_); }

 private:
  template <typename Fill>
  void add_track(const Fill& fill) {
    protozero::pbf_writer packet(trace_, trace::kPacket);
    packet.add_uint32(packet::kSequence, kSequence);
    protozero::pbf_writer track(packet, packet::kTrackDescriptor);
    fill(track);
  }

  template <typename Fill>
  void add_event(double seconds, std::uint64_t track, std::int32_t type, const Fill& fill) {
    protozero::pbf_writer packet(trace_, trace::kPacket);
    packet.add_uint64(packet::kTimestamp, nanoseconds(seconds));
    packet.add_uint32(packet::kSequence, kSequence);
    protozero::pbf_writer event(packet, packet::kTrackEvent);
    event.add_int32(event::kType, type);
    event.add_uint64(event::kTrack, track);
    fill(event);
  }

  /// Each wait within the round is a flow of its own.
  void number_flows(const StepProfile& profile) {
    starting_.assign(profile.program->instructions.size(), {});
    ending_.assign(profile.program->instructions.size(), 0);
    std::vector<double> ends(profile.program->instructions.size(), -1);
    for (const ProfileSlice& slice : profile.slices)
      ends[static_cast<std::size_t>(slice.instruction)] = slice.time.end;
    for (const ProfileSlice& slice : profile.slices) {
      if (slice.time.awaited < 0) continue;
      const auto awaited = static_cast<std::size_t>(slice.time.awaited);
      if (ends[awaited] < 0 || ends[awaited] > slice.time.start) continue;  // of the round before
      starting_[awaited].push_back(++flows_);
      ending_[static_cast<std::size_t>(slice.instruction)] = flows_;
    }
  }

  void add_lane(const StepProfile& profile, Lane lane, std::int32_t pid) {
    std::uint64_t track = 0;
    for (const ProfileSlice& slice : profile.slices) {
      if (profile.instruction(slice.instruction).lane != lane) continue;
      if (track == 0) {
        track = ++tracks_;
        add_track([&](protozero::pbf_writer& descriptor) {
          descriptor.add_uint64(descriptor::kUuid, track);
          protozero::pbf_writer thread(descriptor, descriptor::kThread);
          thread.add_int32(descriptor::kThreadPid, pid);
          thread.add_int32(descriptor::kThreadId, pid * 100 + static_cast<std::int32_t>(lane) + 1);
          thread.add_string(descriptor::kThreadName, std::string(name_of(lane)));
        });
      }
      add_slice(profile, slice, track);
    }
  }

  void add_slice(const StepProfile& profile, const ProfileSlice& slice, std::uint64_t track) {
    const Instruction& instruction = profile.instruction(slice.instruction);
    const auto number = static_cast<std::size_t>(slice.instruction);
    add_event(slice.time.start, track, event::kBegin, [&](protozero::pbf_writer& event) {
      event.add_string(event::kName, title_of(*profile.program, instruction));
      annotate(event, "instruction", annotation::kInt, std::int64_t{slice.instruction});
      if (instruction.flops > 0) annotate(event, "FLOPs", annotation::kDouble, instruction.flops);
      if (is_transfer(instruction.operation)) {
        annotate(event, "bytes", annotation::kInt,
                 std::int64_t{profile.program->buffer(instruction.writes.front().buffer).bytes});
      }
      if (slice.time.awaited >= 0) {
        annotate(event, "waited for", annotation::kString,
                 title_of(*profile.program, profile.instruction(slice.time.awaited)));
        annotate(event, "waited (s)", annotation::kDouble, slice.time.waited);
      }
      for (const std::uint64_t flow : starting_[number]) event.add_fixed64(event::kFlows, flow);
      if (ending_[number] > 0) event.add_fixed64(event::kEndingFlows, ending_[number]);
    });
    add_event(slice.time.end, track, event::kEnd, [](protozero::pbf_writer&) {});
  }

  void add_memory(const StepProfile& profile, Tier tier, std::uint64_t process) {
    const std::vector<MemoryMoment> moments = profile.memory(tier);
    const auto add_counter = [&](const std::string& name, const auto& bytes_at) {
      bool is_used = false;
      for (const MemoryMoment& moment : moments) is_used |= bytes_at(moment) > 0;
      if (!is_used) return;
      const std::uint64_t track = ++tracks_;
      add_track([&](protozero::pbf_writer& descriptor) {
        descriptor.add_uint64(descriptor::kUuid, track);
        descriptor.add_uint64(descriptor::kParent, process);
        descriptor.add_string(descriptor::kName, name);
        protozero::pbf_writer counter(descriptor, descriptor::kCounter);
        counter.add_int32(descriptor::kCounterUnit, descriptor::kBytesUnit);
      });
      Bytes now = -1;
      for (const MemoryMoment& moment : moments) {
        if (std::exchange(now, bytes_at(moment)) == bytes_at(moment)) continue;
        add_event(moment.seconds, track, event::kCounterType,
                  [&](protozero::pbf_writer& event) { event.add_int64(event::kCounterValue, now); });
      }
    };
    add_counter(std::string(name_of(tier)), [](const MemoryMoment& moment) { return moment.bytes(); });
    for (const BufferKind kind : kBufferKinds) {
      add_counter(fmt::format("{} {}", name_of(tier), name_of(kind)),
                  [&](const MemoryMoment& moment) { return moment.by_kind[static_cast<std::size_t>(kind)]; });
    }
  }

  std::string bytes_;
  protozero::pbf_writer trace_;
  std::int32_t processes_ = 0;
  std::uint64_t tracks_ = 0, flows_ = 0;
  std::vector<std::vector<std::uint64_t>> starting_;  ///< by instruction: flows from it
  std::vector<std::uint64_t> ending_;                 ///< likewise: the flow to it, or 0
};

}  // namespace

std::string make_trace(std::span<const TraceGroup> groups) {
  TraceWriter writer;
  for (const TraceGroup& group : groups) {
    for (const StepProfile& profile : group.profiles) writer.add(group.name, profile);
  }
  return writer.take();
}

}  // namespace strata
