#include "engine/plan/passes/near_use.h"

#include <numeric>
#include <utility>

#include "base/nth.h"

namespace strata {
namespace {

std::vector<bool> find_visitors(const Program& program, const TierPair& pair) {
  std::vector<bool> visits(program.buffers.size(), false);
  std::vector<std::int32_t> uses(program.buffers.size(), 0);
  std::vector<std::int32_t> latest_use(program.buffers.size(), -1);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.operation == pair.fetch) nth(visits, instruction.writes[0].buffer) = true;
    if (instruction.operation == pair.write_back) nth(visits, instruction.reads[0].buffer) = true;
    if (pair.is_transfer(instruction)) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      if (std::exchange(nth(latest_use, operand.buffer), static_cast<std::int32_t>(i)) !=
          static_cast<std::int32_t>(i))
        ++nth(uses, operand.buffer);
    });
  }
  for (std::size_t b = 0; b < visits.size(); ++b) {
    if (program.buffers[b].persistent || uses[b] > 1) visits[b] = false;
  }
  return visits;
}

std::vector<bool> find_gathered(const Program& program, const TierPair& pair,
                                const std::vector<bool>& visits) {
  std::vector<bool> gathered(program.buffers.size(), false);
  if (!pair.gather) return gathered;
  std::vector<std::int32_t> writes(program.buffers.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.writes) ++nth(writes, operand.buffer);
    if (pair.gathers(instruction)) nth(gathered, instruction.writes[0].buffer) = true;
  }
  for (std::size_t b = 0; b < gathered.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != pair.near || buffer.persistent || buffer.carried || visits[b] || writes[b] > 1)
      gathered[b] = false;
  }
  return gathered;
}

std::vector<Bytes> visiting_bytes(const Program& program, const std::vector<bool>& visits) {
  std::vector<Bytes> bytes(program.instructions.size(), 0);
  std::vector<std::size_t> counted_at(program.buffers.size(), program.instructions.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for_each_operand(program.instructions[i], [&](const Operand& operand, bool) {
      const BufferId id = operand.buffer;
      if (!nth(visits, id) || nth(counted_at, id) == i) return;
      nth(counted_at, id) = i;
      bytes[i] += nth(program.buffers, id).bytes;
    });
  }
  return bytes;
}

std::vector<Bytes> staying_bytes(const Program& program, Tier near, const std::vector<bool>& visits) {
  std::vector<Bytes> change(program.instructions.size() + 1, 0);
  const std::vector<Lifetime> live = lifetimes(program);
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != near || visits[b]) continue;
    live[b].for_each_stretch(static_cast<std::int32_t>(program.instructions.size()),
                             [&](std::int32_t first, std::int32_t last) {
                               nth(change, first) += buffer.bytes;
                               nth(change, last + 1) -= buffer.bytes;
                             });
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

}  // namespace

NearUse find_near_use(const Program& plain, const TierPair& pair) {
  NearUse use;
  use.is_visitor = find_visitors(plain, pair);
  use.is_gathered = find_gathered(plain, pair, use.is_visitor);
  use.visiting = visiting_bytes(plain, use.is_visitor);
  use.staying = staying_bytes(plain, pair.near, use.is_visitor);
  return use;
}

}  // namespace strata
