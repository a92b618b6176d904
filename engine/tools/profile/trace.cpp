#include "engine/tools/profile/trace.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/nth.h"
#include "engine/tools/profile/trace_packets.h"
#include "engine/tools/profile/wait_flows.h"

namespace strata {

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

void add_instruction(SliceFields& fields, const Program& program, std::int32_t number) {
  const Instruction& instruction = nth(program.instructions, number);
  fields.name(title_of(program, instruction));
  fields.annotate("instruction", std::int64_t{number});
  if (instruction.flops > 0) fields.annotate("FLOPs", instruction.flops);
  if (is_transfer(instruction.operation))
    fields.annotate("bytes", std::int64_t{program.buffer(instruction.writes.front().buffer).bytes});
}

namespace {

class TraceWriter {
 public:
  TraceWriter() : packets_(bytes_) { packets_.begin(); }

  void add(const std::string& group, const StepProfile& profile) {
    const std::int32_t pid = ++processes_;
    const std::uint64_t process = ++tracks_;
    packets_.add_process(process, pid,
                         profile.name.empty() ? group : fmt::format("{} {}", group, profile.name));
    find_flows(profile);
    for (const Lane lane : kLanes) add_lane(profile, lane, pid);
    for (const Tier tier : kTiers) add_memory(profile, tier, process);
  }

  std::string take() { return std::move(bytes_); }

 private:
  void find_flows(const StepProfile& profile) {
    std::vector<InstructionTime> times(profile.program->instructions.size(), {.start = 0, .end = -1});
    for (const ProfileSlice& slice : profile.slices) nth(times, slice.instruction) = slice.time;
    flows_.find(times);
  }

  void add_lane(const StepProfile& profile, Lane lane, std::int32_t pid) {
    std::uint64_t track = 0;
    for (const ProfileSlice& slice : profile.slices) {
      if (profile.instruction(slice.instruction).lane != lane) continue;
      if (track == 0) {
        track = ++tracks_;
        packets_.add_thread(track, pid, pid * 100 + static_cast<std::int32_t>(lane) + 1, name_of(lane));
      }
      add_slice(profile, slice, track);
    }
  }

  void add_slice(const StepProfile& profile, const ProfileSlice& slice, std::uint64_t track) {
    std::string text;
    SliceFields fields(text);
    add_instruction(fields, *profile.program, slice.instruction);
    const std::int32_t awaited = slice.time.awaited;
    flows_.add_to(fields, static_cast<std::size_t>(slice.instruction), slice.time,
                  awaited < 0 ? "" : title_of(*profile.program, profile.instruction(awaited)));
    packets_.begin_slice(nanoseconds(slice.time.start), track, text);
    packets_.end_slice(nanoseconds(slice.time.end), track);
  }

  void add_memory(const StepProfile& profile, Tier tier, std::uint64_t process) {
    const std::vector<MemoryReading> readings = profile.memory(tier);
    const auto add_counter = [&](const std::string& name, const auto& bytes_at) {
      bool is_used = false;
      for (const MemoryReading& reading : readings) is_used |= bytes_at(reading) > 0;
      if (!is_used) return;
      const std::uint64_t track = ++tracks_;
      packets_.add_counter(track, process, name);
      Bytes now = -1;
      for (const MemoryReading& reading : readings) {
        if (std::exchange(now, bytes_at(reading)) == bytes_at(reading)) continue;
        packets_.count(nanoseconds(reading.seconds), track, now);
      }
    };
    add_counter(std::string(name_of(tier)), [](const MemoryReading& reading) { return reading.bytes(); });
    for (const BufferKind kind : kBufferKinds) {
      add_counter(fmt::format("{} {}", name_of(tier), name_of(kind)),
                  [&](const MemoryReading& reading) { return reading.by_kind[kind]; });
    }
  }

  std::string bytes_;
  TracePackets packets_;
  std::int32_t processes_ = 0;
  std::uint64_t tracks_ = 0;
  WaitFlows flows_;
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
