// Updates of a piece of a unit, on the host and on the device.
#include <algorithm>

#include "engine/device/state_calls.h"
#include "engine/run/execute/operations/kinds.h"
#include "optim/update.h"

namespace strata::operations {
namespace {

/// What the instruction's piece of a unit has.
OptimizerState state_of_piece(const OperationContext& on, const Instruction& instruction) {
  const Operand& parameter = *instruction.find_operand(Role::parameter);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  const Operand* master = instruction.find_operand(Role::master);
  const bool is_split = master != nullptr && master->type == ElementType::low_half;
  const std::int64_t first = instruction.piece.first;
  std::byte* updated = on.address(parameter.buffer) + first * size_of(parameter.type);
  OptimizerState state = {
      .precision = dtype_of(parameter.type),
      .format = {.split_master = is_split},
      .elements = instruction.piece.is_all() ? parameter.elements : instruction.piece.count,
      .master = master == nullptr ? updated : on.address(master->buffer),
      .gradient = on.address(gradient.buffer) + first * size_of(gradient.type),
      .parameter = updated,
      .unit = static_cast<std::uint32_t>(instruction.unit),
      .first = on.share(instruction).first + first};
  for (const Moment moment : kMoments) {
    const Operand* stored = instruction.find_operand(role_of(moment));
    if (stored == nullptr) continue;
    (moment == Moment::ema ? state.format.average : state.format.moments) = dtype_of(stored->type);
    state.of(moment) = on.address(stored->buffer);
  }
  return state;
}

/// Calls update(state, number of the policy) for each part of the instruction's unit that one policy updates,
/// as far as it lies in the instruction's piece of this rank's shard.
template <typename Update>
void update_parts(const OperationContext& on, const Instruction& instruction, const Update& update) {
  const OptimizerState piece = state_of_piece(on, instruction);
  const std::int64_t begin = instruction.piece.first, end = begin + piece.elements;
  for (const UpdatedPart& part : on.share(instruction).parts) {
    const std::int64_t first = std::max(part.at, begin), last = std::min(part.end(), end);
    if (first >= last) continue;
    OptimizerState state = piece.part(first - begin, last - first);
    state.rule = on.setup.optimizer.policies[part.policy].rule;
    update(state, part.policy);
  }
}

}  // namespace

void update_on_device(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.operand<std::byte>(instruction, Role::step_scalars));
  update_parts(on, instruction, [&](const OptimizerState& state, std::size_t policy) {
    on.kernels.run(ParameterUpdate{.skip = scalars.skip(),
                                   .step = scalars.of_policy(policy),
                                   .average = scalars.average(),
                                   .state = state});
  });
}

void update_on_host(OperationContext& on, const Instruction& instruction) {
  const StepScalars scalars(on.span<std::byte>(*instruction.find_operand(Role::step_scalars)).data());
  on.workers.execute([&] {
    update_parts(on, instruction, [&](const OptimizerState& state, std::size_t policy) {
      on.meter().touch(state);
      if (*scalars.skip() != 0) return round_masters(state);
      update(*scalars.of_policy(policy), state, *scalars.average());
    });
  });
}

}  // namespace strata::operations
