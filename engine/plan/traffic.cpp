#include "engine/plan/traffic.h"

#include <algorithm>

namespace strata {

void add_traffic(const Program& program, const Instruction& instruction, Traffic& traffic) {
  const auto on = [&](Lane link) -> Bytes& { return traffic[static_cast<std::size_t>(link)]; };
  if (std::find(kLinks.begin(), kLinks.end(), instruction.lane) != kLinks.end()) {
    on(instruction.lane) += program.buffer(instruction.reads[0].buffer).bytes;
  } else if (instruction.operation == Operation::save) {
    for (const Operand& operand : instruction.reads) {
      const Buffer& buffer = program.buffer(operand.buffer);
      if (buffer.tier == Tier::device) on(Lane::d2h) += buffer.bytes;
    }
  }
}

Traffic traffic_of(const Program& program, When when) {
  Traffic traffic = {};
  for (const Instruction& instruction : program.instructions) {
    if (instruction.when == when) add_traffic(program, instruction, traffic);
  }
  return traffic;
}

}  // namespace strata
