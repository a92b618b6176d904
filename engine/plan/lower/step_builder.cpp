#include "engine/plan/lower/step_builder.h"

#include <utility>

#include "base/nth.h"
#include "collectives/sent_bytes.h"
#include "engine/model/model.h"

namespace strata {
namespace {

std::int32_t number(DataGroup group) {
  return static_cast<std::int32_t>(group);
}

}  // namespace

void StepBuilder::on_device(Instruction instruction, const std::vector<Use>& uses) {
  instruction.serves = serves_;
  builder_.on_device(std::move(instruction), uses);
}

void StepBuilder::on_compute(Operation operation, std::int32_t unit, const std::vector<Use>& uses) {
  on_device({.operation = operation, .unit = unit}, uses);
}

void StepBuilder::on_host(Instruction instruction, const std::vector<Use>& uses) {
  instruction.serves = serves_;
  builder_.on_host(std::move(instruction), uses);
}

void StepBuilder::on_host(Operation operation, Lane lane, std::int32_t unit, std::int64_t microbatch,
                          const std::vector<Use>& uses, When when) {
  on_host({.operation = operation,
           .lane = lane,
           .unit = unit,
           .microbatch = static_cast<std::int32_t>(microbatch),
           .when = when},
          uses);
}

void StepBuilder::on_host(Operation operation, std::int32_t unit, std::int32_t microbatch,
                          const std::vector<Use>& uses, Effect effect) {
  on_host(
      {.operation = operation, .lane = Lane::cpu, .unit = unit, .microbatch = microbatch, .effect = effect},
      uses);
}

void StepBuilder::on_comm(Operation operation, std::int32_t unit, Exchange exchange,
                          const std::vector<Use>& uses) {
  on_device({.operation = operation, .lane = Lane::comm, .unit = unit, .exchange = exchange}, uses);
}

std::int64_t StepBuilder::ranks_of(DataGroup group) const {
  return strategy_.mesh.ranks() == 1 ? 1 : nth(builder_.program.groups, number(group)).ranks;
}

std::int32_t StepBuilder::reducing_group() const {
  return number(strategy_.is_sharded() ? DataGroup::shard : DataGroup::replicate);
}

Exchange StepBuilder::exchange_of_parts(Bytes part) const {
  return {.group = reducing_group(), .sent = sent_in_parts(part, strategy_.mesh.reducing())};
}

Exchange StepBuilder::exchange_of_sums(DataGroup group, const Value& value) const {
  return {.group = number(group), .sent = sent_in_sum(value.elements, size_of(value.type), ranks_of(group))};
}

void StepBuilder::all_reduce_on_host(std::int32_t unit, DataGroup group, Role role, Value& value) {
  if (ranks_of(group) == 1) return;
  on_host({.operation = Operation::all_reduce,
           .lane = Lane::cpu,
           .unit = unit,
           .exchange = exchange_of_sums(group, value)},
          {{role, &value, Access::update}});
}

void StepBuilder::add_up(DataGroup group, std::int32_t unit, std::int32_t microbatch, Role role, Value& value,
                         const Use::Part& part) {
  const Bytes sent = sent_in_sum(part.elements, size_of(part.type), ranks_of(group));
  on_device({.operation = Operation::all_reduce,
             .lane = group == DataGroup::context ? Lane::context : Lane::tensor,
             .unit = unit,
             .microbatch = microbatch,
             .exchange = {.group = number(group), .sent = sent}},
            {{role, &value, Access::update, part}});
}

void StepBuilder::gather_or_scatter(Operation operation, std::int32_t unit, std::int32_t microbatch,
                                    const std::vector<Use>& uses) {
  const Use::Part& part = *uses[operation == Operation::all_gather ? 0 : 1].part;
  on_device(
      {.operation = operation,
       .lane = Lane::tensor,
       .unit = unit,
       .microbatch = microbatch,
       .exchange = {.group = number(DataGroup::tensor),
                    .sent = sent_in_parts(part.elements * size_of(part.type), ranks_of(DataGroup::tensor))}},
      uses);
}

void StepBuilder::ring_shift(std::int32_t unit, std::int32_t microbatch, const Use& from, const Use& to) {
  const Bytes sent = from.part->elements * size_of(from.part->type);
  builder_.on_device({.operation = Operation::ring_shift,
                      .lane = Lane::context,
                      .unit = unit,
                      .microbatch = microbatch,
                      .exchange = {.group = number(DataGroup::context), .sent = sent}},
                     {from, to});
}

void StepBuilder::all_gather(std::int32_t unit, Value& shard, Value& whole) {
  on_comm(Operation::all_gather, unit, exchange_of_parts(shard.bytes()),
          {{Role::source, &shard, Access::read}, {Role::destination, &whole, Access::write}});
}

void StepBuilder::message(const Visit& visit, StepValues& step) {
  UnitValues& values = nth(step.units, visit.unit);
  const std::size_t mb = visit.microbatch < 0 ? 0 : static_cast<std::size_t>(visit.microbatch);
  switch (visit.message) {
    case Message::input:
      message(visit, values.input[mb]);
      message(visit, step.tally[mb]);
      break;
    case Message::input_gradient:
      message(visit, values.input_gradient[mb]);
      message(visit, step.tally[mb]);
      break;
    case Message::gradient:
      message(visit, visit.pass == Pass::send ? values.gradient : values.received_gradient);
      break;
    case Message::parameter:
      message(visit, values.parameter.kept(strategy_.gathers()));
      break;
    case Message::none:
      break;
  }
}

void StepBuilder::message(const Visit& visit, Value& value) {
  if (value.elements == 0) return;
  const bool sends = visit.pass == Pass::send;
  on_device({.operation = sends ? Operation::send : Operation::receive,
             .lane = sends ? Lane::send : Lane::receive,
             .unit = visit.unit,
             .microbatch = visit.microbatch,
             .exchange = {.group = number(DataGroup::pipeline),
                          .peer = visit.stage,
                          .sent = sends ? value.bytes() : 0}},
            {{sends ? Role::source : Role::destination, &value, sends ? Access::read : Access::write}});
}

}  // namespace strata
