// A run goes through its program round after round, once for each step. If some instructions work for the
// step before the round's, there is one more round at the end: the first has no step before it, and the last
// no step of its own. So a pipeline that goes on from step to step has its steady state in each round, is
// filled in the first and drained in the last.
#pragma once

#include <algorithm>

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

/// The step that an instruction of a round works for. Steps and rounds count alike.
inline std::int64_t step_of(const Instruction& instruction, std::int64_t round) {
  return instruction.serves == Serves::step_before ? round - 1 : round;
}

/// What a run performs: `steps` steps from `first_step` on.
struct Rounds {
  std::int64_t first_step = 0, steps = 0;
  SaveSchedule saves = {};

  /// Whether the instruction does its work in this round; otherwise it does nothing, in its order and with
  /// its dependencies.
  bool performs(const Instruction& instruction, std::int64_t round) const {
    if (instruction.serves == Serves::first_step) return round == first_step;
    if (instruction.serves == Serves::both) return true;
    const std::int64_t step = step_of(instruction, round);
    const bool is_run = step >= first_step && step < first_step + steps;
    return is_run && (instruction.when == When::every_step || saves.saves(step));
  }
};

}  // namespace strata
