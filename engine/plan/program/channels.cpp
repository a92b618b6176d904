#include "engine/plan/program/channels.h"

#include "base/nth.h"

namespace strata {

Channel channel_of(const Instruction& instruction, std::int32_t part) {
  const auto& [group, peer, sent] = instruction.exchange;
  if (!is_message(instruction.operation)) return {.group = group, .lane = instruction.lane};
  const bool sends = instruction.operation == Operation::send;
  return {.group = group, .lane = Lane::send, .from = sends ? part : peer, .to = sends ? peer : part};
}

void add_channels(const Program& program, std::int64_t rank, std::set<Channel>& channels) {
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.meets_ranks()) continue;
    const RankGroup& group = nth(program.groups, instruction.exchange.group);
    channels.insert(channel_of(instruction, static_cast<std::int32_t>(group.part_of(rank))));
  }
}

}  // namespace strata
