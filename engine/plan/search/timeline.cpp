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

double seconds_at(Bytes bytes, double rate) {
  return bytes == 0 ? 0 : static_cast<double>(bytes) / rate;
}

/// A call of an operator that was not measured takes its FLOPs' time, or that of going through its memory.
double seconds_of_calls(const Work& work, const MachineRates& rates) {
  double seconds = 0;
  for (const auto& [call, times] : work) {
    const double by_rates = call.flops > 0     ? call.flops / rates.flops_per_second
                            : rates.cores_copy ? seconds_at(call.bytes, rates.memory_bytes_per_second)
                                               : 0;
    seconds += static_cast<double>(times) * rates.kernels.seconds(call).value_or(by_rates);
  }
  return seconds;
}

}  // namespace

InstructionCosts::InstructionCosts(const Program& program, const MachineRates& rates)
    : program_(program), rates_(rates) {
  if (rates.kernels.is_empty()) return;
  for (std::size_t number = 0; number < program.works.size(); ++number)
    work_.push_back(seconds_of_calls(*program.works[static_cast<std::int32_t>(number)], rates));
}

double InstructionCosts::seconds_of(const Instruction& instruction) const {
  if (instruction.when == When::saving || instruction.serves == Serves::first_step) return 0;
  const auto copied = [&] { return program_.buffer(instruction.writes.front().buffer).bytes; };
  switch (instruction.lane) {
    case Lane::h2d:
      return seconds_at(copied(), rates_.h2d_bytes_per_second);
    case Lane::d2h:
      return seconds_at(copied(), rates_.d2h_bytes_per_second);
    case Lane::read:
      return seconds_at(copied(), rates_.nvme_read_bytes_per_second);
    case Lane::write:
      return seconds_at(copied(), rates_.nvme_write_bytes_per_second);
    case Lane::comm:
    case Lane::tensor:
    case Lane::context:
    case Lane::send:
      return seconds_at(instruction.exchange.sent, rates_.h2d_bytes_per_second);
    case Lane::compute:
    case Lane::cpu:
      return computing_seconds(instruction);
    case Lane::receive:  // its sender's time
    case Lane::data:
    case Lane::save:
      return 0;
  }
  return 0;
}

double InstructionCosts::computing_seconds(const Instruction& instruction) const {
  if (instruction.work >= 0 && !work_.empty()) return work_[static_cast<std::size_t>(instruction.work)];
  if (instruction.flops > 0) return instruction.flops / rates_.flops_per_second;
  // A device with memory of its own goes through that far faster than through the host's.
  if (instruction.lane == Lane::compute && !rates_.cores_copy) return 0;
  return seconds_at(touched_bytes(instruction), rates_.memory_bytes_per_second);
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
  const InstructionCosts costs(placed, rates);
  std::vector<double> seconds(count);
  for (std::size_t i = 0; i < count; ++i) seconds[i] = costs.seconds_of(placed.instructions[i]);
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
  std::vector<InstructionCosts> costs;
  for (const RankProgram& rank : ranks) costs.emplace_back(*rank.program, rates);
  const auto seconds = [&](std::size_t number, const Instruction& instruction) {
    if (instruction.operation == Operation::receive)
      return static_cast<double>(instruction.writes.front().bytes()) / rates.h2d_bytes_per_second;
    return costs[number].seconds_of(instruction);
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
