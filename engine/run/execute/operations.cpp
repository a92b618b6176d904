#include "engine/run/execute/operations.h"

#include <utility>

#include "engine/run/execute/operations/kinds.h"

namespace strata {

Operations::Operations(Setup setup) : on_(std::move(setup)) {}

MeterCount Operations::take_count() {
  for (StoreQueue* queue : {on_.setup.spill.reads, on_.setup.spill.writes}) {
    if (queue == nullptr) continue;
    const StoreCount moved = queue->take_count();
    on_.meter().move(Link::nvme_read, moved.read);
    on_.meter().move(Link::nvme_write, moved.written);
    on_.meter().touch_nvme(moved.end);
  }
  return on_.meter().take();
}

Bytes Operations::sent_bytes(const Instruction& instruction) const {
  const bool exchanges = instruction.exchange.sent > 0;
  return exchanges ? static_cast<Bytes>(on_.group_of(instruction).sent_bytes()) : 0;
}

void Operations::perform(const Instruction& instruction, std::int64_t step) {
  switch (instruction.operation) {
    case Operation::load_data:
      return operations::load_data(on_, instruction, step);
    case Operation::copy_to_device:
    case Operation::copy_to_host:
      return operations::copy(on_, instruction);
    case Operation::read:
      return operations::read(on_, instruction);
    case Operation::write:
      return operations::write(on_, instruction);
    case Operation::forward:
    case Operation::backward:
    case Operation::input_gradient:
    case Operation::weight_gradient:
      return operations::run_pass(on_, instruction, step);
    case Operation::cast_gradient:
      return operations::cast_gradient(on_, instruction);
    case Operation::list_rows:
      return operations::list_rows(on_, instruction);
    case Operation::copy_rows:
      return operations::copy_rows(on_, instruction);
    case Operation::sum_rows:
      return operations::sum_rows(on_, instruction);
    case Operation::sum_of_squares:
      return operations::sum_squares(on_, instruction);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      return operations::exchange(on_, instruction);
    case Operation::ring_shift:
      return operations::pass_around(on_, instruction);
    case Operation::send:
    case Operation::receive:
      return operations::pass_on(on_, instruction);
    case Operation::add_gradient:
      return operations::add_gradient(on_, instruction);
    case Operation::sum_norms:
      return operations::sum_norms(on_, instruction);
    case Operation::sum_losses:
      return operations::sum_losses(on_, instruction, step);
    case Operation::loss:
      return operations::loss(on_, instruction, step);
    case Operation::join_logits:
      return operations::join_logits(on_, instruction);
    case Operation::choose_tokens:
      return operations::choose_tokens(on_, instruction);
    case Operation::take_tokens:
      return operations::take_tokens(on_, instruction);
    case Operation::step_scalars:
      return operations::step_scalars(on_, instruction, step);
    case Operation::stash:
      return operations::stash(on_, instruction);
    case Operation::pack:
      return operations::pack(on_, instruction);
    case Operation::unpack:
      return operations::unpack(on_, instruction);
    case Operation::grad_norm:
      return operations::grad_norm(on_, instruction, step);
    case Operation::mix_momentum:
      return instruction.lane == Lane::cpu ? operations::mix_momentum_on_host(on_, instruction)
                                           : operations::mix_momentum_on_device(on_, instruction);
    case Operation::precondition:
      return operations::precondition(on_, instruction);
    case Operation::update:
      return instruction.lane == Lane::cpu ? operations::update_on_host(on_, instruction)
                                           : operations::update_on_device(on_, instruction);
    case Operation::save:
      return operations::save(on_, instruction, step);
    case Operation::finish_checkpoint:
      return on_.setup.saver->finish();
  }
}

}  // namespace strata
