#include "engine/tools/profile/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/run/execute/recorded_step.h"

namespace strata {
namespace {

/// First and last of the profile's instructions that touch each buffer, as lifetimes() has them.
std::vector<Lifetime> performed_lifetimes(const StepProfile& profile) {
  LifetimeFinder finder(*profile.program);
  for (const ProfileSlice& slice : profile.slices) {
    const Instruction& instruction = profile.instruction(slice.instruction);
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      finder.touch(operand.buffer, slice.instruction, instruction.serves, writes);
    });
  }
  return finder.find(static_cast<std::int32_t>(profile.program->instructions.size()));
}

}  // namespace

Bytes MemoryReading::bytes() const {
  return std::accumulate(by_kind.begin(), by_kind.end(), Bytes{0});
}

double StepProfile::busy_seconds(Lane lane) const {
  double seconds = 0;
  for (const ProfileSlice& slice : slices) {
    if (instruction(slice.instruction).lane == lane) seconds += slice.time.end - slice.time.start;
  }
  return seconds;
}

std::vector<MemoryReading> StepProfile::memory(Tier tier) const {
  std::map<double, EnumArray<BufferKind, Bytes>> changes;
  changes[0];
  for (const BufferLife& life : lives) {
    const Buffer& buffer = program->buffer(life.buffer);
    if (buffer.tier != tier || buffer.bytes == 0 || life.to <= life.from) continue;
    changes[life.from][buffer.kind] += buffer.bytes;
    changes[life.to][buffer.kind] -= buffer.bytes;
  }
  std::vector<MemoryReading> readings;
  MemoryReading now;
  for (const auto& [seconds, change] : changes) {
    now.seconds = seconds;
    for (const BufferKind kind : kBufferKinds) now.by_kind[kind] += change[kind];
    if (readings.empty() || readings.back().by_kind != now.by_kind) readings.push_back(now);
  }
  return readings;
}

StepProfile make_profile(const Program& placed, const RoundTimeline& round, std::string name) {
  StepProfile profile = {.name = std::move(name), .program = &placed, .seconds = round.seconds};
  const auto time_of = [&](std::int32_t instruction) -> const InstructionTime& {
    return nth(round.instructions, instruction);
  };
  const auto count = static_cast<std::int32_t>(placed.instructions.size());
  for (std::int32_t i = 0; i < count; ++i) {
    if (!nth(placed.instructions, i).is_of_every_step() || time_of(i).end < time_of(i).start) continue;
    profile.slices.push_back({i, time_of(i)});
    profile.end = std::max(profile.end, time_of(i).end);
  }
  const std::vector<Lifetime> live = performed_lifetimes(profile);
  for (std::size_t b = 0; b < placed.buffers.size(); ++b) {
    const auto id = static_cast<BufferId>(b);
    if (is_there_throughout(placed.buffers[b], live[b])) {
      profile.lives.push_back({.buffer = id, .to = profile.end});
    } else if (live[b].wraps()) {
      profile.lives.push_back({.buffer = id, .last_user = live[b].last, .to = time_of(live[b].last).end});
      profile.lives.push_back(
          {.buffer = id, .maker = live[b].first, .from = time_of(live[b].first).start, .to = profile.end});
    } else if (!live[b].is_empty()) {
      profile.lives.push_back({id, live[b].first, live[b].last, time_of(live[b].first).start, 0});
    }
  }
  // Lanes run side by side, so what comes last in the program is not always what ends last.
  std::vector<double> ends(placed.buffers.size(), 0);
  for (const ProfileSlice& slice : profile.slices) {
    for_each_operand(profile.instruction(slice.instruction), [&](const Operand& operand, bool) {
      double& end = nth(ends, operand.buffer);
      end = std::max(end, slice.time.end);
    });
  }
  for (BufferLife& life : profile.lives) {
    if (life.maker >= 0 && life.last_user >= 0) life.to = nth(ends, life.buffer);
  }
  return profile;
}

double add_waits(const PlannedProgram& program, std::vector<InstructionTime>& times) {
  double begin = std::numeric_limits<double>::infinity();
  for (const InstructionTime& time : times) {
    if (time.has_run()) begin = std::min(begin, time.start);
  }
  for (InstructionTime& time : times) {
    if (!time.has_run()) continue;
    time.start -= begin;
    time.end -= begin;
  }
  for (const std::vector<std::int32_t>& lane : program.dependencies.lanes) {
    double free = 0;
    for (const std::int32_t number : lane) {
      InstructionTime& time = nth(times, number);
      if (!time.has_run()) continue;
      time.waited = std::max(0.0, time.start - free);
      double latest = free;
      for (const Lane other : kLanes) {
        const LanePosition& wait = nth(program.dependencies.waits, number)[other];
        if (wait.position < 0 || wait.previous_step) continue;
        const std::int32_t awaited = nth(program.dependencies.lanes[other], wait.position);
        const InstructionTime& of_awaited = nth(times, awaited);
        if (!of_awaited.has_run() || of_awaited.end <= latest) continue;
        latest = of_awaited.end;
        time.awaited = awaited;
      }
      free = time.end;
    }
  }
  return begin;
}

StepProfile measured_profile(const PlannedProgram& program, const RecordedStep& recorded) {
  RoundTimeline round = {.seconds = recorded.seconds, .instructions = recorded.times};
  add_waits(program, round.instructions);
  return make_profile(program.program, round);
}

std::vector<StepProfile> planned_profiles(std::span<const RankProgram> ranks, const MachineRates& rates) {
  const std::vector<RoundTimeline> rounds = simulate_round(ranks, rates);
  std::vector<StepProfile> profiles;
  profiles.reserve(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    profiles.push_back(make_profile(*ranks[r].program, rounds[r],
                                    ranks.size() > 1 ? fmt::format("rank {}", ranks[r].rank) : ""));
  }
  return profiles;
}

}  // namespace strata
