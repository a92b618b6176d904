// What ranks send one another.
#include <stdexcept>

#include <fmt/format.h>

#include "engine/run/execute/operations/kinds.h"

namespace strata::operations {
namespace {

/// Ranks add up nothing else.
Element summed_element(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return Element::fp32;
    case ElementType::bf16:
      return Element::bf16;
    case ElementType::fp64:
      return Element::fp64;
    default:
      throw std::logic_error(fmt::format("ranks cannot add up elements of {}", name_of(type)));
  }
}

}  // namespace

/// The one that sends is the first of the two ranks of a message.
void pass_on(OperationContext& on, const Instruction& instruction) {
  Communicator& group = on.group_of(instruction);
  const bool sends = instruction.operation == Operation::send;
  const Operand& values = sends ? instruction.reads[0] : instruction.writes[0];
  std::byte* data = on.address(values.buffer);
  const auto bytes = static_cast<std::size_t>(values.bytes());
  on.meter().touch(data, values.bytes());
  sends ? group.send(data, bytes, Element::byte, 1) : group.receive(data, bytes, Element::byte, 0);
}

/// All ranks of the group send and receive at once.
void pass_around(OperationContext& on, const Instruction& instruction) {
  Communicator& group = on.group_of(instruction);
  const Operand& source = instruction.reads[0];
  const Operand& destination = instruction.writes[0];
  const std::byte* from = on.address(source.buffer) + source.offset;
  std::byte* to = on.address(destination.buffer) + destination.offset;
  on.meter().touch(from, source.bytes());
  on.meter().touch(to, destination.bytes());
  const auto bytes = static_cast<std::size_t>(source.bytes());
  const int ranks = group.size(), rank = group.rank();
  group.begin_group();
  group.send(from, bytes, Element::byte, (rank + 1) % ranks);
  group.receive(to, bytes, Element::byte, (rank + ranks - 1) % ranks);
  group.end_group();
}

void exchange(OperationContext& on, const Instruction& instruction) {
  Communicator& group = on.group_of(instruction);
  const Operand& source = instruction.reads[0];
  const Operand& destination = instruction.writes[0];
  const std::byte* from = on.address(source.buffer) + source.offset;
  std::byte* to = on.address(destination.buffer) + destination.offset;
  const auto count = static_cast<std::size_t>(destination.elements);
  const auto touch = [&](Bytes read, Bytes written) {
    on.meter().touch(from, read);
    on.meter().touch(to, written);
  };
  if (instruction.operation == Operation::all_gather) {
    touch(source.bytes(), group.size() * source.bytes());
    group.all_gather(from, to, static_cast<std::size_t>(source.bytes()), Element::byte);
  } else if (instruction.operation == Operation::reduce_scatter) {
    touch(group.size() * destination.bytes(), destination.bytes());
    group.reduce_scatter(from, to, count, summed_element(destination.type));
  } else {
    touch(destination.bytes(), destination.bytes());
    group.all_reduce(from, to, count, summed_element(destination.type));
  }
}

}  // namespace strata::operations
