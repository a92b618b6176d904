#include "engine/plan/search/timeline.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/plan/program/rank_tasks.h"

namespace strata {
namespace {

/// The first round has nothing before it, and the second still finds idle lanes.
constexpr int kRounds = 4;

Bytes touched_bytes(const Instruction& instruction) {
  Bytes sum = 0;
  for_each_operand(instruction, [&](const Operand& operand, bool) { sum += operand.bytes(); });
  return sum;
}

}  // namespace

double seconds_of(const Program& program, const Instruction& instruction, const MachineRates& rates) {
  if (instruction.when == When::saving || instruction.serves == Serves::first_step) return 0;
  const auto at = [](Bytes bytes, double rate) { return bytes == 0 ? 0 : static_cast<double>(bytes) / rate; };
  const auto copied = [&] { return program.buffer(instruction.writes.front().buffer).bytes; };
  switch (instruction.lane) {
    case Lane::h2d:
      return at(copied(), rates.h2d_bytes_per_second);
    case Lane::d2h:
      return at(copied(), rates.d2h_bytes_per_second);
    case Lane::read:
      return at(copied(), rates.nvme_read_bytes_per_second);
    case Lane::write:
      return at(copied(), rates.nvme_write_bytes_per_second);
    case Lane::comm:
    case Lane::tensor:
    case Lane::context:
    case Lane::send:
      return at(instruction.exchange.sent, rates.h2d_bytes_per_second);
    case Lane::compute:
      // A device with memory of its own goes through that far faster than through the host's.
      if (instruction.flops == 0 && !rates.cores_copy) return 0;
      [[fallthrough]];
    case Lane::cpu:
      if (instruction.flops > 0) return instruction.flops / rates.flops_per_second;
      return at(touched_bytes(instruction), rates.memory_bytes_per_second);
    case Lane::receive:  // its sender's time
    case Lane::data:
    case Lane::save:
      return 0;
  }
  return 0;
}

namespace {

/// Lets times count from the first of all.
void shift_to_begin(std::vector<RoundTimeline>& ranks) {
  double begin = std::numeric_limits<double>::infinity();
  for (const RoundTimeline& rank : ranks) {
    for (const InstructionTime& time : rank.instructions) begin = std::min(begin, time.start);
  }
  for (RoundTimeline& rank : ranks) {
    for (InstructionTime& time : rank.instructions) {
      time.start -= begin;
      time.end -= begin;
    }
  }
}

RoundTimeline simulate(const Program& placed, const Dependencies& dependencies, const MachineRates& rates) {
  const std::size_t count = placed.instructions.size();
  std::vector<double> seconds(count);
  for (std::size_t i = 0; i < count; ++i) seconds[i] = seconds_of(placed, placed.instructions[i], rates);
  RoundTimeline round;
  round.instructions.resize(count);
  std::vector<InstructionTime> before(count);
  std::array<double, kLanes.size()> lane_end = {};
  double finished = 0, finished_before = 0;
  for (int number = 0; number < kRounds; ++number) {
    std::swap(round.instructions, before);
    finished_before = finished;
    for (std::size_t i = 0; i < count; ++i) {
      double& lane = lane_end[static_cast<std::size_t>(placed.instructions[i].lane)];
      InstructionTime time = {.start = lane};
      for (const Lane other : kLanes) {
        const auto of_lane = static_cast<std::size_t>(other);
        const LanePosition& wait = dependencies.waits[i][of_lane];
        if (wait.position < 0 || other == Lane::save) continue;
        const std::int32_t awaited = dependencies.lanes[of_lane][static_cast<std::size_t>(wait.position)];
        const std::vector<InstructionTime>& times = wait.previous_step ? before : round.instructions;
        const double ready = times[static_cast<std::size_t>(awaited)].end;
        if (ready <= time.start) continue;
        time.start = ready;
        time.awaited = awaited;
      }
      time.waited = time.start - lane;
      time.end = lane = time.start + seconds[i];
      finished = std::max(finished, time.end);
      round.instructions[i] = time;
    }
  }
  round.seconds = finished - finished_before;
  return round;
}

}  // namespace

double simulated_seconds(const Program& placed, const Dependencies& dependencies, const MachineRates& rates) {
  return simulate(placed, dependencies, rates).seconds;
}

double simulated_seconds(std::span<const RankProgram> ranks, const MachineRates& rates) {
  return simulate_round(ranks, rates).front().seconds;
}

std::vector<RoundTimeline> simulate_round(std::span<const RankProgram> ranks, const MachineRates& rates) {
  if (ranks.size() == 1) {
    std::vector<RoundTimeline> alone = {simulate(*ranks[0].program, *ranks[0].dependencies, rates)};
    shift_to_begin(alone);
    return alone;
  }
  const auto seconds = [&](std::size_t number, const Instruction& instruction) {
    if (instruction.operation == Operation::receive)
      return static_cast<double>(instruction.writes.front().bytes()) / rates.h2d_bytes_per_second;
    return seconds_of(*ranks[number].program, instruction, rates);
  };
  std::size_t in_round = 0;
  for (const RankProgram& rank : ranks) in_round += rank.program->instructions.size();
  const std::vector<LaneTask> tasks = rank_tasks(ranks, kRounds, seconds);
  const Timeline timeline = run_tasks(tasks);
  std::vector<double> lane_end(ranks.size() * kLanes.size(), 0);
  double finished_before = 0;
  for (std::size_t task = 0; task < (kRounds - 1) * in_round; ++task) {
    lane_end[static_cast<std::size_t>(tasks[task].lane)] = timeline.tasks[task].end;
    finished_before = std::max(finished_before, timeline.tasks[task].end);
  }
  std::vector<RoundTimeline> rounds;
  std::size_t task = (kRounds - 1) * in_round;
  for (const RankProgram& rank : ranks) {
    const std::size_t first = task % in_round;
    const std::size_t count = rank.program->instructions.size();
    RoundTimeline& round = rounds.emplace_back();
    round.seconds = timeline.seconds - finished_before;
    for (; task % in_round < first + count && task < tasks.size(); ++task) {
      double& lane = lane_end[static_cast<std::size_t>(tasks[task].lane)];
      InstructionTime& time = round.instructions.emplace_back();
      time = {.start = timeline.tasks[task].start, .end = timeline.tasks[task].end};
      time.waited = time.start - lane;
      double latest = lane;
      for (const std::int32_t after : tasks[task].after) {
        const auto awaited = static_cast<std::size_t>(after) % in_round;
        const double end = timeline.tasks[static_cast<std::size_t>(after)].end;
        if (end <= latest || awaited < first || awaited >= first + count) continue;
        latest = end;
        time.awaited = static_cast<std::int32_t>(awaited - first);
      }
      lane = time.end;
    }
  }
  shift_to_begin(rounds);
  return rounds;
}

}  // namespace strata
