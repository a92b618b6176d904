// State on its way to a checkpoint.
#include <utility>

#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {

void save(OperationContext& on, const Instruction& instruction, std::int64_t step) {
  if (const auto* record = on.value<StepRecord>(instruction, Role::step_record))
    return on.setup.saver->set_record(*record);
  auto* room = on.operand<std::byte>(instruction, Role::workspace);
  const auto on_host = [&](Role role) -> const std::byte* {
    const BufferId id = instruction.find(role);
    if (id < 0 || room == nullptr) return id < 0 ? nullptr : on.address(id);
    const Buffer& from = on.setup.program->buffer(id);
    on.setup.saver->copy(room, on.address(id), from);
    return std::exchange(room, room + from.bytes);
  };
  const auto add = [&](StateKey key, Role role) {
    const Operand* values = instruction.find_operand(role);
    if (values == nullptr) return;
    const std::byte* data = on_host(role);
    // A parameter that is saved for its own master has all of the unit.
    const bool is_piece = on.setup.program->buffer(values->buffer).kind == BufferKind::optimizer_state;
    if (!is_piece) data += instruction.piece.first * size_of(values->type);
    const auto* parameter = reinterpret_cast<const bfloat16*>(on_host(Role::parameter));
    const StoredValues stored = {
        .as = stored_as(values->type),
        .values = data,
        .parameter = parameter == nullptr ? nullptr : parameter + instruction.piece.first,
        .packing = &on.share(instruction).frozen,
        .part = on.share(instruction).part_of(on.share(instruction).frozen),
        .codes = moment_of(key) ? codes_of(*moment_of(key)) : MomentCodes()};
    on.setup.saver->add(step + 1, static_cast<std::size_t>(instruction.unit), instruction.piece, key, stored);
  };
  add(StateKey::master, Role::master);
  for (const Moment moment : kMoments) add(key_of(moment), role_of(moment));
  add(StateKey::factors, Role::factors);
  add(StateKey::frozen, Role::frozen);
}

}  // namespace strata::operations
