#include "engine/plan/cost/timeline.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/nth.h"
#include "engine/model/graph/unit_pass.h"
#include "engine/plan/program/rank_tasks.h"

namespace strata {
namespace {

/// The round that stands for all: the first has nothing before it, and the second still finds idle lanes. The
/// one behind it keeps lanes busy that run ahead.
constexpr int kSteady = 3, kRounds = kSteady + 2;

/// An update of a piece goes through no more of any operand than that.
Bytes touched_bytes(const Instruction& instruction) {
  const std::int64_t most =
      instruction.piece.is_all() ? std::numeric_limits<std::int64_t>::max() : instruction.piece.count;
  Bytes sum = 0;
  for_each_operand(instruction, [&](const Operand& operand, bool) {
    sum += std::min(operand.elements, most) * size_of(operand.type);
  });
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

double seconds_of_pass(const UnitPass& pass, const MachineRates& rates) {
  double seconds = 0;
  for (const Segment& segment : pass.segments()) {
    Program program;
    const std::int32_t work = program.works.add(segment.work());
    const Instruction instruction{.lane = Lane::compute, .flops = segment.flops(), .work = work};
    seconds += InstructionCosts(program, rates).seconds_of(instruction);
  }
  return seconds;
}

InstructionCosts::InstructionCosts(const Program& program, const MachineRates& rates)
    : program_(program), rates_(rates), links_(rates.rank_links()) {
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
      return exchange_seconds(links_, nth(program_.groups, instruction.exchange.group), instruction.exchange);
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

double InstructionCosts::seconds_of_receive(const Instruction& receive) const {
  Exchange sent = receive.exchange;
  sent.sent = receive.writes.front().bytes();
  return exchange_seconds(links_, nth(program_.groups, sent.group), sent);
}

double InstructionCosts::computing_seconds(const Instruction& instruction) const {
  if (instruction.work >= 0 && !work_.empty()) return nth(work_, instruction.work);
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

/// What lanes of a rank share.
enum class Resource : std::uint8_t { cores, memory, drives };
constexpr std::int32_t kResources = 3;

/// What instructions of a rank take of its resources while they run at full speed. Drives do one thing at a
/// time. Copies and what drives read and write go through the host's memory, and so does what works there
/// without products: these find most in caches.
class SharedResources {
 public:
  SharedResources(std::size_t rank, const MachineRates& rates)
      : first_(static_cast<std::int32_t>(rank) * kResources), rates_(rates) {}

  std::array<ResourceShare, 2> taken_by(const Instruction& instruction) const {
    switch (instruction.lane) {
      case Lane::compute:
        if (!rates_.cores_copy) return {};
        return {of(Resource::cores, 1), of(Resource::memory, instruction.flops > 0 ? 0 : 1)};
      case Lane::cpu:
        return {of(Resource::cores, rates_.cores_copy ? 1 : 0), of(Resource::memory, 1)};
      case Lane::h2d:
        return copy(rates_.h2d_bytes_per_second);
      case Lane::d2h:
        return copy(rates_.d2h_bytes_per_second);
      case Lane::read:
        return {of(Resource::drives, 1),
                of(Resource::memory, rates_.share_of_memory(rates_.nvme_read_bytes_per_second))};
      case Lane::write:
        return {of(Resource::drives, 1),
                of(Resource::memory, rates_.share_of_memory(rates_.nvme_write_bytes_per_second))};
      case Lane::comm:
      case Lane::tensor:
      case Lane::context:
      case Lane::send:
        return {of(Resource::cores, rates_.share_of_exchange())};
      case Lane::receive:
      case Lane::data:
      case Lane::save:
        return {};
    }
    return {};
  }

 private:
  ResourceShare of(Resource resource, double share) const {
    return {first_ + static_cast<std::int32_t>(resource), share};
  }
  std::array<ResourceShare, 2> copy(double bytes_per_second) const {
    return {of(Resource::cores, rates_.share_of_cores(bytes_per_second)),
            of(Resource::memory, rates_.share_of_memory_by_copy(bytes_per_second))};
  }

  std::int32_t first_;
  const MachineRates& rates_;
};

std::size_t instructions_of(std::span<const RankProgram> ranks) {
  std::size_t count = 0;
  for (const RankProgram& rank : ranks) count += rank.program->instructions.size();
  return count;
}

/// The tasks of the first kRounds rounds of all ranks, round after round. What the last step leaves to the
/// round behind them is not among them.
std::vector<LaneTask> timed_tasks(std::span<const RankProgram> ranks, const MachineRates& rates) {
  std::vector<InstructionCosts> costs;
  costs.reserve(ranks.size());
  for (const RankProgram& rank : ranks) costs.emplace_back(*rank.program, rates);
  const auto seconds = [&](std::size_t number, const Instruction& instruction) {
    return instruction.operation == Operation::receive ? costs[number].seconds_of_receive(instruction)
                                                       : costs[number].seconds_of(instruction);
  };
  std::vector<LaneTask> tasks = rank_tasks(ranks, kRounds, seconds);
  tasks.resize(kRounds * instructions_of(ranks));
  for (auto task = tasks.begin(); task != tasks.end();) {
    for (std::size_t number = 0; number < ranks.size(); ++number) {
      const SharedResources resources(number, rates);
      for (const Instruction& instruction : ranks[number].program->instructions)
        task++->shares = resources.taken_by(instruction);
    }
  }
  return tasks;
}

}  // namespace

double simulated_seconds(const Program& placed, const Dependencies& dependencies, const MachineRates& rates) {
  const RankProgram rank = {.program = &placed, .dependencies = &dependencies};
  return simulated_seconds({&rank, 1}, rates);
}

double simulated_seconds(std::span<const RankProgram> ranks, const MachineRates& rates) {
  return simulate_round(ranks, rates).front().seconds;
}

std::vector<RoundTimeline> simulate_round(std::span<const RankProgram> ranks, const MachineRates& rates) {
  const std::size_t in_round = instructions_of(ranks);
  const std::vector<LaneTask> tasks = timed_tasks(ranks, rates);
  const Timeline timeline = run_tasks(tasks);
  std::vector<double> lane_end(ranks.size() * kLanes.size(), 0);
  const auto finished = [&](std::size_t rounds) {
    double end = 0;
    for (std::size_t task = 0; task < rounds * in_round; ++task)
      end = std::max(end, timeline.tasks[task].end);
    return end;
  };
  const double seconds = finished(kSteady + 1) - finished(kSteady);
  for (std::size_t task = 0; task < kSteady * in_round; ++task)
    nth(lane_end, tasks[task].lane) = timeline.tasks[task].end;
  std::vector<RoundTimeline> rounds;
  std::size_t first = 0;  // of the rank's instructions in a round
  for (const RankProgram& rank : ranks) {
    const std::size_t count = rank.program->instructions.size();
    RoundTimeline& round = rounds.emplace_back();
    round.seconds = seconds;
    for (std::size_t i = first; i < first + count; ++i) {
      const std::size_t task = kSteady * in_round + i;
      double& lane = nth(lane_end, tasks[task].lane);
      InstructionTime& time = round.instructions.emplace_back();
      time = {.start = timeline.tasks[task].start, .end = timeline.tasks[task].end};
      time.waited = time.start - lane;
      double latest = lane;
      for (const std::int32_t after : tasks[task].after) {
        const auto awaited = static_cast<std::size_t>(after) % in_round;
        const double end = nth(timeline.tasks, after).end;
        if (end <= latest || awaited < first || awaited >= first + count) continue;
        latest = end;
        time.awaited = static_cast<std::int32_t>(awaited - first);
      }
      lane = time.end;
    }
    first += count;
  }
  shift_to_begin(rounds);
  return rounds;
}

}  // namespace strata
