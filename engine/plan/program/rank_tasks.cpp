#include "engine/plan/program/rank_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/rounds.h"

namespace strata {
namespace {

constexpr auto kLaneCount = static_cast<std::int32_t>(kLanes.size());

class RankTasks {
 public:
  RankTasks(std::span<const RankProgram> ranks, int steps, const InstructionSeconds& seconds,
            SaveSchedule saves)
      : ranks_(ranks), seconds_(seconds) {
    for (const RankProgram& rank : ranks) rounds_.push_back(first_rounds(*rank.program, steps, saves));
    const int rounds = steps + rounds_of_all_behind(ranks);
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t number = 0; number < ranks.size(); ++number) add_round(round, number);
    }
    check_meetings();
  }

  std::vector<LaneTask> take() { return std::move(tasks_); }

 private:
  struct Meeting {
    std::int32_t number = 0;
    std::int64_t ends = 0, expected = 0;
    std::size_t rank = 0;  ///< the first, its instruction, and the step that it comes for
    const Instruction* instruction = nullptr;
    std::int64_t step = 0;
  };
  /// Group, set of it, lane and parts of a message, and how manieth of these.
  using Key = std::tuple<std::int32_t, std::int64_t, Lane, std::int64_t, std::int64_t, std::int64_t>;

  std::int32_t first_task(int round, std::size_t number) const { return first_task_.at({round, number}); }

  void add_round(int round, std::size_t number) {
    const RankProgram& rank = ranks_[number];
    const std::vector<Instruction>& instructions = rank.program->instructions;
    first_task_[{round, number}] = static_cast<std::int32_t>(tasks_.size());
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      const bool is_performed = rounds_[number].performs(instruction, round);
      const auto lane = rank.dependencies == nullptr ? 0 : static_cast<std::int32_t>(instruction.lane);
      LaneTask task = {.lane = static_cast<std::int32_t>(number) * kLaneCount + lane,
                       .seconds = is_performed ? seconds_(number, instruction) : 0};
      if (rank.dependencies != nullptr) task.after = waits(round, number, i);
      const bool finishes = instruction.operation == Operation::finish_checkpoint;
      if (is_performed && ranks_.size() > 1 && (instruction.meets_ranks() || finishes))
        task.meeting = meeting(number, instruction, rounds_[number].step_of(instruction, round));
      tasks_.push_back(std::move(task));
    }
  }

  static int rounds_of_all_behind(std::span<const RankProgram> ranks) {
    std::int64_t behind = 0;
    for (const RankProgram& rank : ranks) behind = std::max(behind, rounds_behind(*rank.program));
    return static_cast<int>(behind);
  }

  std::vector<std::int32_t> waits(int round, std::size_t number, std::size_t i) const {
    const Dependencies& dependencies = *ranks_[number].dependencies;
    std::vector<std::int32_t> after;
    for (const Lane lane : kLanes) {
      const LanePosition& wait = dependencies.waits[i][lane];
      const int of_round = wait.previous_step ? round - 1 : round;
      if (wait.position < 0 || of_round < 0) continue;
      after.push_back(first_task(of_round, number) + nth(dependencies.lanes[lane], wait.position));
    }
    return after;
  }

  std::string text_of(std::size_t number, const Instruction& instruction) const {
    return fmt::format("rank {}: {}", ranks_[number].rank, print(*ranks_[number].program, instruction));
  }

  std::int32_t meeting(std::size_t number, const Instruction& instruction, std::int64_t step) {
    if (instruction.operation == Operation::finish_checkpoint) {  // all ranks make one folder a checkpoint
      return meeting(number, instruction, {-1, 0, instruction.lane, -1, -1, 0}, std::ssize(ranks_), step);
    }
    const RankGroup& group = nth(ranks_[number].program->groups, instruction.exchange.group);
    const std::int64_t rank = ranks_[number].rank, set = group.set_of(rank), part = group.part_of(rank);
    if (is_message(instruction.operation)) {
      const bool sends = instruction.operation == Operation::send;
      const std::int64_t peer = instruction.exchange.peer, from = sends ? part : peer,
                         to = sends ? peer : part;
      return meeting(number, instruction, {instruction.exchange.group, set, Lane::send, from, to, 0}, 2,
                     step);
    }
    const std::int64_t expected = std::ranges::count_if(
        ranks_, [&](const RankProgram& other) { return group.set_of(other.rank) == set; });
    return meeting(number, instruction, {instruction.exchange.group, set, instruction.lane, -1, -1, 0},
                   expected, step);
  }

  std::int32_t meeting(std::size_t number, const Instruction& instruction, Key key, std::int64_t expected,
                       std::int64_t step) {
    std::get<5>(key) = met_[{number, key}]++;
    const auto [found, is_first] = meetings_.try_emplace(
        key, Meeting{static_cast<std::int32_t>(meetings_.size()), 0, expected, number, &instruction, step});
    Meeting& meeting = found->second;
    ++meeting.ends;
    if (!is_first && (meeting.step != step || !fit(*meeting.instruction, instruction)))
      throw std::logic_error(fmt::format("ranks meet in what does not fit: {}, and {}",
                                         text_of(meeting.rank, *meeting.instruction),
                                         text_of(number, instruction)));
    return meeting.number;
  }

  /// Two ends of a message, or calls of one exchange.
  static bool fit(const Instruction& one, const Instruction& other) {
    if (one.operation == Operation::finish_checkpoint) return other.operation == one.operation;
    const auto first = [](const Instruction& instruction) {
      return instruction.reads.empty() ? instruction.writes[0] : instruction.reads[0];
    };
    const bool are_messages = is_message(one.operation);
    if (are_messages
            ? one.operation == other.operation || one.unit != other.unit || one.microbatch != other.microbatch
            : one.operation != other.operation)
      return false;
    return one.model == other.model && first(one).type == first(other).type &&
           first(one).elements == first(other).elements;
  }

  void check_meetings() const {
    for (const auto& [key, meeting] : meetings_) {
      if (meeting.ends != meeting.expected)
        throw std::logic_error(fmt::format("{} of {} ranks come to {}", meeting.ends, meeting.expected,
                                           text_of(meeting.rank, *meeting.instruction)));
    }
  }

  std::span<const RankProgram> ranks_;
  const InstructionSeconds& seconds_;
  std::vector<Rounds> rounds_;  ///< by rank
  std::map<std::pair<int, std::size_t>, std::int32_t> first_task_;
  std::map<std::pair<std::size_t, Key>, std::int64_t> met_;  ///< how often a rank was there
  std::map<Key, Meeting> meetings_;
  std::vector<LaneTask> tasks_;
};

void verify_no_circle(std::span<const RankProgram> ranks) {
  // What waits for the round before waits for it in the second.
  // Ranks that meet at the end of each step's checkpoint also meet with fewer of them.
  constexpr int kSteps = 2;
  const Timeline timeline =
      run_tasks(rank_tasks(ranks, kSteps, [](std::size_t, const Instruction&) { return 0.0; }, {.every = 1}));
  if (timeline.stuck.empty()) return;
  std::size_t all = 0;
  for (const RankProgram& rank : ranks) all += rank.program->instructions.size();
  std::string waiting;
  for (const std::int32_t task : timeline.stuck) {
    std::size_t index = static_cast<std::size_t>(task) % all, number = 0;
    for (; index >= ranks[number].program->instructions.size(); ++number)
      index -= ranks[number].program->instructions.size();
    waiting += fmt::format("\n  rank {}: {}", ranks[number].rank,
                           print(*ranks[number].program, ranks[number].program->instructions[index]));
  }
  throw std::logic_error("program defect: ranks wait for each other for ever:" + waiting);
}

}  // namespace

std::vector<LaneTask> rank_tasks(std::span<const RankProgram> ranks, int steps,
                                 const InstructionSeconds& seconds, SaveSchedule saves) {
  return RankTasks(ranks, steps, seconds, saves).take();
}

void verify_ranks(std::span<const RankProgram> ranks) {
  verify_no_circle(ranks);
  std::vector<RankProgram> serial(ranks.begin(), ranks.end());
  for (RankProgram& rank : serial) rank.dependencies = nullptr;
  verify_no_circle(serial);
}

}  // namespace strata
