#include "engine/plan/lower/program_builder.h"

#include <utility>

namespace strata {

Value make_value(SharedText name, BufferKind kind, ElementType type, std::int64_t elements) {
  Value value;
  value.name = std::move(name);
  value.kind = kind;
  value.type = type;
  value.elements = elements;
  return value;
}

BufferId ProgramBuilder::add(const Value& value, Tier tier, bool persistent) {
  return program.add(
      {value.name, tier, value.kind, align_up(value.bytes(), kBufferAlignment), persistent, -1});
}

void ProgramBuilder::make_resident(Value& value, bool persistent) {
  value.resident = add(value, Tier::device, persistent);
}

BufferId ProgramBuilder::home(Value& value) {
  if (value.home < 0) value.home = add(value, Tier::host, false);
  return value.home;
}

void ProgramBuilder::copy(Operation operation, Lane lane, const Instruction& of, const Value& value,
                          BufferId from, BufferId to, Serves serves) {
  program.instructions.push_back({.operation = operation,
                                  .lane = lane,
                                  .unit = of.unit,
                                  .microbatch = of.microbatch,
                                  .reads = {value.operand(Role::source, from)},
                                  .writes = {value.operand(Role::destination, to)},
                                  .serves = serves});
}

void ProgramBuilder::on_device(Instruction instruction, const std::vector<Use>& uses) {
  std::vector<std::pair<BufferId, Value*>> write_back;
  for (const Use& use : uses) {
    Value& value = *use.value;
    if (value.elements == 0) continue;
    if (value.pinned && value.resident < 0) make_resident(value, false);
    BufferId id = value.resident;
    const bool travels = id < 0 && !value.scratch;
    if (id < 0) id = add(value, Tier::device, false);
    const bool is_made_late = travels && use.access == Access::write &&
                              instruction.serves == Serves::step_before &&
                              program.buffer(home(value)).persistent;
    if (travels && (use.access != Access::write || is_made_late))
      copy(Operation::copy_to_device, Lane::h2d, instruction, value, home(value), id,
           is_made_late ? Serves::first_step : instruction.serves);
    if (use.access != Access::write) instruction.reads.push_back(use.operand(id));
    if (use.access != Access::read) instruction.writes.push_back(use.operand(id));
    if (travels && use.access != Access::read) write_back.emplace_back(id, &value);
    if (use.access != Access::read) value.at_home = travels;
  }
  program.instructions.push_back(instruction);
  for (const auto& [id, value] : write_back)
    copy(Operation::copy_to_host, Lane::d2h, instruction, *value, id, home(*value), instruction.serves);
}

void ProgramBuilder::on_host(Instruction instruction, const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    Value& value = *use.value;
    const BufferId id = home(value);
    if (use.access != Access::write && value.resident >= 0 && !value.at_home) {
      copy(Operation::copy_to_host, Lane::d2h, instruction, value, value.resident, id, instruction.serves);
      value.at_home = true;
    }
    if (use.access != Access::write) instruction.reads.push_back(use.operand(id));
    if (use.access != Access::read) instruction.writes.push_back(use.operand(id));
  }
  program.instructions.push_back(instruction);
  for (const Use& use : uses) {
    if (use.access == Access::read || use.value->resident < 0) continue;
    copy(Operation::copy_to_device, Lane::h2d, instruction, *use.value, use.value->home, use.value->resident,
         instruction.serves);
    use.value->at_home = true;
  }
}

}  // namespace strata
