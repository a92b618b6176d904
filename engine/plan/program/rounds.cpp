#include "engine/plan/program/rounds.h"

namespace strata {

std::size_t models_in(const Program& program) {
  std::int32_t last = 0;
  for (const Instruction& instruction : program.instructions) last = std::max(last, instruction.model);
  return static_cast<std::size_t>(last) + 1;
}

Rounds first_rounds(const Program& program, std::int64_t steps, const SaveSchedule& saves) {
  return {std::vector<Rounds::OfModel>(models_in(program), {.steps = {0, steps}, .saves = saves})};
}

}  // namespace strata
