#include "engine/plan/program/traffic.h"

namespace strata {
std::string_view name_of(Link link) {
  constexpr EnumTable<Link, std::string_view> names = {
      "h2d", "d2h", "nvme_read", "nvme_write", "all_gather", "reduce_scatter", "all_reduce", "send"};
  return names[link];
}

Lane lane_of(Link link) {
  constexpr EnumTable<Link, Lane> lanes = {Lane::h2d,  Lane::d2h,  Lane::read, Lane::write,
                                           Lane::comm, Lane::comm, Lane::comm, Lane::send};
  return lanes[link];
}

std::optional<Link> link_of(Operation operation) {
  switch (operation) {
    case Operation::copy_to_device:
      return Link::h2d;
    case Operation::copy_to_host:
      return Link::d2h;
    case Operation::read:
      return Link::nvme_read;
    case Operation::write:
      return Link::nvme_write;
    case Operation::all_gather:
      return Link::all_gather;
    case Operation::reduce_scatter:
      return Link::reduce_scatter;
    case Operation::all_reduce:
      return Link::all_reduce;
    case Operation::send:
    case Operation::ring_shift:
      return Link::send;
    default:
      return std::nullopt;
  }
}

namespace {

void add_traffic(const Program& program, const Instruction& instruction, Traffic& traffic) {
  if (const std::optional<Link> link = link_of(instruction.operation)) {
    const bool between_ranks = instruction.exchange.group >= 0;
    traffic[*link] +=
        between_ranks ? instruction.exchange.sent : program.buffer(instruction.reads[0].buffer).bytes;
  } else if (instruction.operation == Operation::save) {
    for (const Operand& operand : instruction.reads) {
      const Buffer& buffer = program.buffer(operand.buffer);
      if (buffer.tier == Tier::device) traffic[Link::d2h] += buffer.bytes;
    }
  }
}

}  // namespace

Traffic traffic_of(const Program& program, When when) {
  Traffic traffic;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.when == when && instruction.serves != Serves::first_step)
      add_traffic(program, instruction, traffic);
  }
  return traffic;
}

Traffic traffic_of_a_start(const Program& program) {
  Traffic traffic;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.serves == Serves::first_step || instruction.serves == Serves::both)
      add_traffic(program, instruction, traffic);
  }
  return traffic;
}

}  // namespace strata
