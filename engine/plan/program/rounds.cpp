#include "engine/plan/program/rounds.h"

#include <vector>

#include "base/nth.h"

namespace strata {

std::size_t models_in(const Program& program) {
  std::int32_t last = 0;
  for (const Instruction& instruction : program.instructions) last = std::max(last, instruction.model);
  return static_cast<std::size_t>(last) + 1;
}

Rounds first_rounds(const Program& program, std::int64_t steps, const SaveSchedule& saves) {
  return {std::vector<Rounds::OfModel>(models_in(program), {.steps = {0, steps}, .saves = saves})};
}

void carry_between_rounds(Program& program) {
  std::vector<bool> is_written(program.buffers.size(), false), is_of_step = is_written, is_found = is_written;
  for (const Instruction& instruction : program.instructions) {
    const bool is_step_before = instruction.serves == Serves::step_before;
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      const BufferId buffer = operand.buffer;
      if (instruction.serves == Serves::step) nth(is_of_step, buffer) = true;
      if (is_step_before && !writes && !nth(is_written, buffer)) nth(is_found, buffer) = true;
      if (is_step_before && writes) nth(is_written, buffer) = true;
    });
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    buffer.carried = !buffer.persistent && is_of_step[b] && is_found[b];
  }
}

}  // namespace strata
