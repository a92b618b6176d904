#include "engine/tools/profile/memory_track.h"

#include <algorithm>
#include <limits>

#include "base/nth.h"
#include "engine/tools/profile/step_profile.h"
#include "engine/tools/profile/trace.h"

namespace strata {

MemoryTrack::MemoryTrack(const Program& program) : program_(program), ends_(program.buffers.size()) {
  LifetimeFinder finder(program);
  const auto count = static_cast<std::int32_t>(program.instructions.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = nth(program.instructions, i);
    if (!instruction.is_of_every_step()) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      finder.touch(operand.buffer, i, instruction.serves, writes);
    });
  }
  const std::vector<Lifetime> live = finder.find(count);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (is_there_throughout(buffer, live[b])) {
      always_[buffer.tier][buffer.kind] += buffer.bytes;
    } else if (buffer.bytes > 0 && !live[b].is_empty()) {
      lives_.push_back({static_cast<BufferId>(b), live[b].first, live[b].last, live[b].wraps()});
    }
  }
  changes_.reserve(4 * lives_.size());  // of two rounds
}

void MemoryTrack::change(BufferId id, bool begins) {
  const Buffer& buffer = program_.buffer(id);
  now_[buffer.tier][buffer.kind] += begins ? buffer.bytes : -buffer.bytes;
}

/// What the round uses up of the one before lives already.
void MemoryTrack::begin_anew(const std::vector<InstructionTime>& times, std::int64_t begin,
                             const OnReading& on_reading) {
  now_ = always_;
  for (const Life& life : lives_) {
    if (life.wraps && nth(times, life.last_user).has_run()) change(life.buffer, true);
  }
  now_.for_each([&](Tier tier, const ByKind& by_kind) { on_reading(begin, tier, by_kind); });
}

void MemoryTrack::add(const std::vector<InstructionTime>& times, std::int64_t begin, bool follows,
                      const OnReading& on_reading) {
  tell_until(follows ? begin : std::numeric_limits<std::int64_t>::max(), on_reading);
  if (!follows) begin_anew(times, begin, on_reading);
  std::ranges::fill(ends_, 0);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (!times[i].has_run() || !instruction.is_of_every_step()) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      double& end = nth(ends_, operand.buffer);
      end = std::max(end, times[i].end);
    });
  }
  for (const Life& life : lives_) {
    const InstructionTime& made = nth(times, life.maker);
    const InstructionTime& used = nth(times, life.last_user);
    const double end = life.wraps ? used.end : nth(ends_, life.buffer);
    if (made.has_run()) changes_.push_back({begin + nanoseconds(made.start), life.buffer, true});
    if (life.wraps ? used.has_run() : made.has_run())
      changes_.push_back({begin + nanoseconds(end), life.buffer, false});
  }
  // What ends makes room for what begins at the same moment.
  std::ranges::sort(changes_, [](const Change& a, const Change& b) {
    return std::pair(a.nanoseconds, a.begins) < std::pair(b.nanoseconds, b.begins);
  });
}

void MemoryTrack::tell_until(std::int64_t nanoseconds, const OnReading& on_reading) {
  std::size_t told = 0;
  while (told < changes_.size() && changes_[told].nanoseconds < nanoseconds) {
    const std::int64_t moment = changes_[told].nanoseconds;
    EnumArray<Tier, bool> changed;
    for (; told < changes_.size() && changes_[told].nanoseconds == moment; ++told) {
      change(changes_[told].buffer, changes_[told].begins);
      changed[program_.buffer(changes_[told].buffer).tier] = true;
    }
    for (const Tier tier : kTiers) {
      if (changed[tier]) on_reading(moment, tier, now_[tier]);
    }
  }
  changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(told));
}

void MemoryTrack::finish(const OnReading& on_reading) {
  tell_until(std::numeric_limits<std::int64_t>::max(), on_reading);
}

Bytes MemoryTrack::bytes() const {
  return static_cast<Bytes>(lives_.capacity() * sizeof(Life) + ends_.capacity() * sizeof(double) +
                            changes_.capacity() * sizeof(Change));
}

}  // namespace strata
