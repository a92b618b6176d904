#include "engine/plan/merge/joint_turns.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/nth.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/passes/merge.h"
#include "engine/plan/program/rank_tasks.h"

namespace strata {
namespace {

/// A turn of one stage.
struct Place {
  std::size_t stage = 0;
  std::int32_t turn = 0;
};

class Joining {
 public:
  Joining(std::span<const RankProgram> stages, const MachineRates& rates)
      : stages_(stages), joint_of_(stages.size()), next_(stages.size(), 0) {
    for (const RankProgram& stage : stages) {
      costs_.emplace_back(*stage.program, rates);
      turns_.push_back(find_turns(*stage.program));
      turn_of_.emplace_back();
      for (std::size_t t = 0; t < turns_.back().size(); ++t) {
        const Turn& turn = turns_.back()[t];
        turn_of_.back().insert(turn_of_.back().end(), static_cast<std::size_t>(turn.last - turn.first),
                               static_cast<std::int32_t>(t));
      }
      met_.emplace_back(turns_.back().size());
    }
    find_meetings();
  }

  std::vector<JointTurn> run() {
    // The stage that was the last to take a turn goes on while it can.
    for (std::size_t stage = 0; !is_done();) {
      while (is_done(stage)) stage = (stage + 1) % stages_.size();
      std::vector<std::int32_t> ends = fewest_with(stage);
      for (std::size_t other = 0; other < stages_.size(); ++other) {
        if (ends[other] == next_[other] || other == stage) continue;
        std::vector<std::int32_t> fewer = fewest_with(other);
        if (count(fewer) < count(ends)) stage = other, ends = std::move(fewer);
      }
      take(ends);
    }
    find_makers();
    return std::move(joint_);
  }

 private:
  bool is_done(std::size_t stage) const { return next_[stage] == std::ssize(turns_[stage]); }
  bool is_done() const {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (!is_done(stage)) return false;
    return true;
  }
  static std::int64_t count(const std::vector<std::int32_t>& ends) {
    return std::accumulate(ends.begin(), ends.end(), std::int64_t{0});
  }

  /// In the second round of a run, in which also what serves the step before is performed.
  void find_meetings() {
    std::size_t all = 0;
    for (const RankProgram& stage : stages_) all += stage.program->instructions.size();
    const std::vector<LaneTask> tasks =
        rank_tasks(stages_, 2, [](std::size_t, const Instruction&) { return 0.0; }, {.every = 1});
    std::map<std::int32_t, Place> first;  // of each meeting
    std::size_t task = all;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (const std::int32_t turn : turn_of_[stage]) {
        const std::int32_t meeting = tasks[task++].meeting;
        if (meeting < 0) continue;
        const auto [found, is_first] = first.try_emplace(meeting, Place{stage, turn});
        if (is_first) continue;
        const Place other = found->second;
        nth(met_[stage], turn).push_back(other);
        nth(met_[other.stage], other.turn).push_back({stage, turn});
      }
    }
  }

  /// Up to where stages must go so that one takes its next turn and nobody meets a turn that is not taken.
  std::vector<std::int32_t> fewest_with(std::size_t stage) const {
    std::vector<std::int32_t> ends = next_, looked_at = next_;
    ++ends[stage];
    for (bool has_grown = true; std::exchange(has_grown, false);) {
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        for (; looked_at[s] < ends[s]; ++looked_at[s]) {
          for (const Place& place : nth(met_[s], looked_at[s]))
            ends[place.stage] = std::max(ends[place.stage], place.turn + 1);
          has_grown = true;
        }
      }
    }
    return ends;
  }

  void take(const std::vector<std::int32_t>& ends) {
    JointTurn& joint = joint_.emplace_back();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      JointTurn::OfStage& of = joint.stages.emplace_back();
      of.turns = ends[stage] - next_[stage];
      for (; next_[stage] < ends[stage]; ++next_[stage]) {
        joint_of_[stage].push_back(static_cast<std::int32_t>(joint_.size()) - 1);
        add_computing(stage, nth(turns_[stage], next_[stage]), joint);
      }
    }
  }

  void add_computing(std::size_t stage, const Turn& turn, JointTurn& joint) const {
    const Program& program = *stages_[stage].program;
    for (std::int32_t i = turn.first; i < turn.last; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      if (instruction.lane != Lane::compute) continue;
      joint.stages[stage].seconds += costs_[stage].seconds_of(instruction);
      if (instruction.flops > 0) joint.pass = {instruction.unit, instruction.operation};
    }
  }

  /// Who wrote a buffer last before it is read.
  void find_makers() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const Program& program = *stages_[stage].program;
      std::vector<std::int32_t> maker(program.buffers.size(), -1);
      for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const std::int32_t joint = nth(joint_of_[stage], turn_of_[stage][i]);
        std::vector<std::int32_t>& after = nth(joint_, joint).stages[stage].after;
        for (const Operand& operand : program.instructions[i].reads) {
          const std::int32_t made = nth(maker, operand.buffer);
          if (made >= 0 && made != joint && std::ranges::find(after, made) == after.end())
            after.push_back(made);
        }
        for (const Operand& operand : program.instructions[i].writes) nth(maker, operand.buffer) = joint;
      }
    }
  }

  std::span<const RankProgram> stages_;
  std::vector<InstructionCosts> costs_;               ///< by stage
  std::vector<std::vector<Turn>> turns_;              ///< by stage
  std::vector<std::vector<std::int32_t>> turn_of_;    ///< by stage and instruction
  std::vector<std::vector<std::vector<Place>>> met_;  ///< by stage and turn
  std::vector<std::vector<std::int32_t>> joint_of_;   ///< by stage and turn
  std::vector<std::int32_t> next_;                    ///< turn of each stage
  std::vector<JointTurn> joint_;
};

}  // namespace

bool JointTurn::is_of_one_stage() const {
  return std::ranges::count_if(stages, [](const OfStage& stage) { return stage.turns > 0; }) == 1;
}

double JointTurn::seconds() const {
  double sum = 0;
  for (const OfStage& stage : stages) sum += stage.seconds;
  return sum / static_cast<double>(stages.size());
}

std::vector<JointTurn> joint_turns(std::span<const RankProgram> stages, const MachineRates& rates) {
  return Joining(stages, rates).run();
}

}  // namespace strata
