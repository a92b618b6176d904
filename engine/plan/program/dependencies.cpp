#include "engine/plan/program/dependencies.h"

#include <algorithm>
#include <iterator>

#include "base/nth.h"

namespace strata {
namespace {

/// When an instruction ran, counted over two repetitions: repetition · instructions + index. -1: never.
using Time = std::int64_t;

constexpr EnumArray<Lane, Time> never() {
  EnumArray<Lane, Time> times;
  for (Time& time : times) time = -1;
  return times;
}

/// The latest accesses to one stretch of bytes that every buffer covers wholly or not at all.
struct Segment {
  Time write = -1;
  EnumArray<Lane, Time> reads = never();
};

/// The segments of one tier's arena.
class SegmentMap {
 public:
  SegmentMap() = default;
  SegmentMap(const Program& program, Tier tier) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.tier != tier) continue;
      edges_.push_back(buffer.offset);
      edges_.push_back(buffer.offset + buffer.bytes);
    }
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    segments_.resize(edges_.size());
  }

  std::span<Segment> of(const Buffer& buffer) {
    const auto at = [&](Bytes edge) {
      return std::lower_bound(edges_.begin(), edges_.end(), edge) - edges_.begin();
    };
    const auto first = at(buffer.offset);
    return span_of(segments_.data() + first, at(buffer.offset + buffer.bytes) - first);
  }

 private:
  std::vector<Bytes> edges_;
  std::vector<Segment> segments_;
};

Dependencies::Saves& saves_like(const Instruction& instruction, std::vector<Dependencies::Saves>& all) {
  const bool is_late = instruction.serves == Serves::step_before;
  const auto found = std::ranges::find_if(all, [&](const Dependencies::Saves& saves) {
    return saves.model == instruction.model && saves.is_late == is_late;
  });
  return found != all.end() ? *found : all.emplace_back(Dependencies::Saves{instruction.model, is_late});
}

/// How many instructions the lane save, of `per_round` in a round, must have run until those of `saves` up to
/// a position of a round are done.
std::int64_t run_by(const Dependencies::Saves& saves, std::int64_t per_round, std::int64_t round,
                    std::int32_t position, const Rounds& rounds) {
  const Rounds::OfModel& model = nth(rounds.models, saves.model);
  const std::int64_t round_of_step_0 = (saves.is_late ? 1 : 0) - model.steps.first;
  const auto behind = std::ranges::upper_bound(saves.positions, position);
  std::int64_t step = round - round_of_step_0;
  if (behind == saves.positions.begin()) --step;
  step = model.saves.latest(std::min(step, model.steps.first + model.steps.count - 1));
  if (step < model.steps.first) return -1;
  const std::int64_t saving = step + round_of_step_0;
  const std::int32_t last = saving == round ? *std::prev(behind) : saves.positions.back();
  return saving * per_round + last + 1;
}

}  // namespace

Dependencies find_dependencies(const Program& placed) {
  const auto count = static_cast<Time>(placed.instructions.size());
  Dependencies result;
  std::vector<std::int32_t> position(placed.instructions.size());
  for (std::size_t i = 0; i < placed.instructions.size(); ++i) {
    const Instruction& instruction = placed.instructions[i];
    auto& lane = result.lanes[instruction.lane];
    position[i] = static_cast<std::int32_t>(lane.size());
    lane.push_back(static_cast<std::int32_t>(i));
    if (instruction.lane == Lane::save && instruction.operation != Operation::finish_checkpoint)
      saves_like(instruction, result.saves).positions.push_back(position[i]);
  }
  result.waits.resize(placed.instructions.size());

  EnumArray<Tier, SegmentMap> maps;
  for (const Tier tier : kTiers) maps[tier] = SegmentMap(placed, tier);
  for (Time time = 0; time < 2 * count; ++time) {
    const Instruction& instruction = nth(placed.instructions, time % count);
    EnumArray<Lane, Time> latest = never();
    const auto wait_for = [&](Time other) {
      if (other < 0) return;
      Time& entry = latest[nth(placed.instructions, other % count).lane];
      entry = std::max(entry, other);
    };
    const auto segments_of = [&](const Operand& operand) {
      const Buffer& buffer = placed.buffer(operand.buffer);
      return maps[buffer.tier].of(buffer);
    };
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      for (const Segment& segment : segments_of(operand)) {
        wait_for(segment.write);
        if (writes) std::for_each(segment.reads.begin(), segment.reads.end(), wait_for);
      }
    });
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      for (Segment& segment : segments_of(operand)) {
        (writes ? segment.write : segment.reads[instruction.lane]) = time;
      }
    });
    if (time < count) continue;
    latest.for_each([&](Lane lane, Time conflict) {
      if (conflict < 0 || lane == instruction.lane) return;
      nth(result.waits, time % count)[lane] = {nth(position, conflict % count), conflict < count};
    });
  }
  return result;
}

std::int64_t needed(const Dependencies& dependencies, Lane lane, const LanePosition& wait, std::int64_t round,
                    const Rounds& rounds) {
  const auto per_round = static_cast<std::int64_t>(dependencies.lanes[lane].size());
  const std::int64_t of_round = wait.previous_step ? round - 1 : round;
  if (lane != Lane::save) return of_round * per_round + wait.position + 1;
  // Most rounds save nothing, and those that do not all save the same models. So what conflicts last may do
  // nothing, and what conflicts before it may still be under way.
  std::int64_t instructions = -1;
  for (const Dependencies::Saves& saves : dependencies.saves)
    instructions = std::max(instructions, run_by(saves, per_round, of_round, wait.position, rounds));
  return instructions;
}

}  // namespace strata
