// A run goes through its program round after round, once for each step; a program of several models has a
// step of each in a round. If some instructions work for the step before the round's, there is one more round
// at the end: the first has no step before it, and the last no step of its own. So a pipeline that goes on
// from step to step has its steady state in each round, is filled in the first and drained in the last.
#pragma once

#include <algorithm>
#include <vector>

#include "base/nth.h"
#include "engine/plan/program/program.h"
#include "engine/plan/program/save_schedule.h"

namespace strata {

/// How many rounds later than a step's own its last instructions are performed: 0 or 1.
inline std::int64_t rounds_behind(const Program& program) {
  return std::ranges::any_of(program.instructions, [](const Instruction& instruction) {
    return instruction.serves == Serves::step_before;
  });
}

/// Kinds of rounds, as bits: the first, those between, and the one behind the last step.
using RoundSet = std::uint8_t;

/// Those in which instructions do their work.
constexpr RoundSet rounds_of(Serves serves) {
  constexpr RoundSet kFirst = 1, kBetween = 2, kBehind = 4;
  switch (serves) {
    case Serves::step:
      return kFirst | kBetween;
    case Serves::step_before:
      return kBetween | kBehind;
    case Serves::both:
      return kFirst | kBetween | kBehind;
    case Serves::first_step:
      return kFirst;
  }
  return 0;
}
constexpr bool is_within(RoundSet some, RoundSet all) {
  return (some & ~all) == 0;
}

/// How many models have steps in a program's rounds: those below this number.
std::size_t models_in(const Program& program);

/// What a run performs of one model: `count` steps from `first` on, which counts from the first of all.
struct StepRange {
  std::int64_t first = 0, count = 0;

  bool has(std::int64_t step) const { return step >= first && step < first + count; }
};

/// What a run performs of a program. Rounds count from its first.
struct Rounds {
  struct OfModel {
    StepRange steps;
    SaveSchedule saves = {};
  };
  std::vector<OfModel> models;

  const OfModel& of(const Instruction& instruction) const { return nth(models, instruction.model); }
  /// The step that an instruction of a round works for.
  std::int64_t step_of(const Instruction& instruction, std::int64_t round) const {
    const std::int64_t of_round = instruction.serves == Serves::step_before ? round - 1 : round;
    return of(instruction).steps.first + of_round;
  }
  /// Whether the instruction does its work in this round; otherwise it does nothing, in its order and with
  /// its dependencies.
  bool performs(const Instruction& instruction, std::int64_t round) const {
    const std::int64_t step = step_of(instruction, round);
    const OfModel& model = of(instruction);
    if (instruction.serves == Serves::first_step && round > 0) return false;
    if (instruction.serves == Serves::both) return model.steps.has(step) || model.steps.has(step - 1);
    return model.steps.has(step) && (instruction.when == When::every_step || model.saves.saves(step));
  }
};

/// Rounds in which each of the program's models takes `steps` steps, from its first on.
Rounds first_rounds(const Program& program, std::int64_t steps, const SaveSchedule& saves = {});

/// Marks the buffers of a plain program in which the step before the round's finds what the round before has
/// left.
void carry_between_rounds(Program& program);

}  // namespace strata
