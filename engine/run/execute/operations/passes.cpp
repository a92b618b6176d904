// Passes of units, and their gradients on the device.
#include <algorithm>

#include "base/nth.h"
#include "engine/device/elementwise_calls.h"
#include "engine/plan/lower/regions.h"
#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

const UnitPass& pass_of(const UnitPasses::Level& level, Operation operation) {
  switch (operation) {
    case Operation::forward:
      return level.forward;
    case Operation::input_gradient:
      return level.input_gradient;
    case Operation::weight_gradient:
      return level.weight_gradient;
    default:
      return level.backward;
  }
}

/// Elements of the operand if the instruction writes it and does not read it, or 0.
std::int64_t elements_begun(const Instruction& instruction, Role role) {
  const Operand* operand = instruction.find_operand(role);
  const bool is_read = std::ranges::find(instruction.reads, role, &Operand::role) != instruction.reads.end();
  return operand == nullptr || is_read ? 0 : operand->elements;
}

}  // namespace

void run_pass(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  if (on.passes.step != step) {
    const std::int64_t terms = on.loss_terms(step) / on.setup.program->updates;
    on.passes = {step, 1.0F / static_cast<float>(terms)};
  }
  UnitMemory memory;
  memory.unit = on.share(instruction).number;
  for (const auto& [region, role] : kRegionRoles) memory[region] = on.operand<std::byte>(instruction, role);
  const UnitPasses::Level& level =
      nth(on.setup.compute->passes(on.share(instruction).kind).levels, instruction.saved_level);
  const UnitPass& pass = pass_of(level, instruction.operation);
  const Segment& segment = nth(pass.segments(), instruction.segment);
  segment.run(on.kernels, memory, on.passes.loss_factor,
              {.gradient = elements_begun(instruction, Role::gradient),
               .shared_gradient = elements_begun(instruction, Role::shared_gradient)});
}

void cast_gradient(OperationContext& on, const Instruction& instruction) {
  on.kernels.run(Cast{on.flat(instruction.reads[0]), on.flat(instruction.writes[0])});
}

void add_gradient(OperationContext& on, const Instruction& instruction) {
  const Matrix given = on.flat(*instruction.find_operand(Role::source));
  const Matrix gradient = on.flat(*instruction.find_operand(Role::gradient));
  on.kernels.run(Addition{gradient, given, gradient});
}

}  // namespace strata::operations
