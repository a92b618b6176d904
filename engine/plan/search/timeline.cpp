#include "engine/plan/search/timeline.h"

#include <algorithm>

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

double simulated_seconds(const Program& placed, const Dependencies& dependencies, const MachineRates& rates) {
  const std::size_t count = placed.instructions.size();
  std::vector<double> seconds(count), end(count), end_before(count);
  for (std::size_t i = 0; i < count; ++i) seconds[i] = seconds_of(placed, placed.instructions[i], rates);
  std::array<double, kLanes.size()> lane_end = {};
  double finished = 0, finished_before = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::swap(end, end_before);
    finished_before = finished;
    for (std::size_t i = 0; i < count; ++i) {
      double& lane = lane_end[static_cast<std::size_t>(placed.instructions[i].lane)];
      double start = lane;
      for (const Lane other : kLanes) {
        const auto number = static_cast<std::size_t>(other);
        const LanePosition& wait = dependencies.waits[i][number];
        if (wait.position < 0 || other == Lane::save) continue;
        const auto awaited =
            static_cast<std::size_t>(dependencies.lanes[number][static_cast<std::size_t>(wait.position)]);
        start = std::max(start, wait.previous_step ? end_before[awaited] : end[awaited]);
      }
      end[i] = lane = start + seconds[i];
      finished = std::max(finished, end[i]);
    }
  }
  return finished - finished_before;
}

double simulated_seconds(std::span<const RankProgram> ranks, const MachineRates& rates) {
  if (ranks.size() == 1) return simulated_seconds(*ranks[0].program, *ranks[0].dependencies, rates);
  const auto seconds = [&](std::size_t number, const Instruction& instruction) {
    if (instruction.operation == Operation::receive)
      return static_cast<double>(instruction.writes.front().bytes()) / rates.h2d_bytes_per_second;
    return seconds_of(*ranks[number].program, instruction, rates);
  };
  std::size_t in_round = 0;
  for (const RankProgram& rank : ranks) in_round += rank.program->instructions.size();
  const Timeline timeline = run_tasks(rank_tasks(ranks, kRounds, seconds));
  const auto finished = [&](int rounds) {
    double finished = 0;
    for (std::size_t task = 0; task < static_cast<std::size_t>(rounds) * in_round; ++task)
      finished = std::max(finished, timeline.tasks[task].end);
    return finished;
  };
  return finished(kRounds) - finished(kRounds - 1);
}

}  // namespace strata
