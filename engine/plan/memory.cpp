#include "engine/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace strata {
namespace {

struct Placed {
  Bytes offset, end;
  Lifetime live;
};

/// `placed` is sorted by offset. The lowest gap that no buffer alive at the same time touches.
Bytes lowest_fit(const std::vector<Placed>& placed, Bytes start, Bytes bytes, const Lifetime& live) {
  Bytes offset = start;
  for (const Placed& other : placed) {
    if (!other.live.overlaps(live)) continue;
    if (other.offset >= offset + bytes) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

void place_tier(Program& program, Tier tier, const std::vector<Lifetime>& live) {
  Bytes persistent_end = 0;
  std::vector<std::size_t> transient;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier) continue;
    if (buffer.persistent) {
      buffer.offset = persistent_end;
      persistent_end += buffer.bytes;
    } else {
      transient.push_back(b);
    }
  }
  std::stable_sort(transient.begin(), transient.end(), [&](std::size_t a, std::size_t b) {
    return program.buffers[a].bytes > program.buffers[b].bytes;
  });
  std::vector<Placed> placed;
  placed.reserve(transient.size());
  for (const std::size_t b : transient) {
    Buffer& buffer = program.buffers[b];
    buffer.offset = lowest_fit(placed, persistent_end, buffer.bytes, live[b]);
    const Placed entry{buffer.offset, buffer.offset + buffer.bytes, live[b]};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed& x, const Placed& y) { return x.offset < y.offset; }),
                  entry);
  }
}

[[noreturn]] void defect(const Program& program, std::size_t instruction, const std::string& what) {
  throw std::logic_error(
      fmt::format("program defect at {} ({}): {}", instruction, print(program, program.instructions[instruction]), what));
}

void verify_data_flow(const Program& program) {
  std::vector<bool> written(program.buffers.size()), only_when_saving(program.buffers.size(), false);
  for (std::size_t b = 0; b < written.size(); ++b) written[b] = program.buffers[b].persistent;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const Operand& operand : instruction.reads) {
      if (!written[static_cast<std::size_t>(operand.buffer)]) {
        defect(program, i, program.buffer(operand.buffer).name + " is read before it is written");
      }
      if (only_when_saving[static_cast<std::size_t>(operand.buffer)] && instruction.when != When::saving) {
        defect(program, i, program.buffer(operand.buffer).name + " is written only in steps that save");
      }
    }
    for (const Operand& operand : instruction.writes) {
      written[static_cast<std::size_t>(operand.buffer)] = true;
      only_when_saving[static_cast<std::size_t>(operand.buffer)] = instruction.when == When::saving;
    }
    const bool moves = is_transfer(instruction.operation);
    if (moves && program.buffer(instruction.reads[0].buffer).bytes != program.buffer(instruction.writes[0].buffer).bytes) {
      defect(program, i, "source and destination differ in size");
    }
  }
}

/// Sweeps the starts and ends of lifetimes, holding the live buffers sorted by offset: neighbours must not touch.
void verify_places(const Program& program, Tier tier, Bytes budget) {
  const std::vector<Lifetime> live = lifetimes(program);
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier || live[b].last < live[b].first) continue;
    if (buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 || buffer.offset + buffer.bytes > budget) {
      throw std::logic_error(fmt::format("program defect: {}:{} at {} leaves its tier of {} bytes", name_of(tier),
                                         buffer.name, buffer.offset, budget));
    }
    order.push_back(b);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return program.buffers[a].offset < program.buffers[b].offset;
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Buffer& low = program.buffers[order[i]];
    for (std::size_t j = i + 1; j < order.size() && program.buffers[order[j]].offset < low.offset + low.bytes; ++j) {
      if (live[order[i]].overlaps(live[order[j]])) {
        throw std::logic_error(fmt::format("program defect: {}:{} and {} overlap while both are live", name_of(tier),
                                           low.name, program.buffers[order[j]].name));
      }
    }
  }
}

}  // namespace

Program place(const Program& program) {
  Program result = program;
  const std::vector<Lifetime> live = lifetimes(program);
  for (const Tier tier : kTiers) place_tier(result, tier, live);
  return result;
}

TierUse tier_use(const Program& placed, Tier tier) {
  const std::vector<Lifetime> live = lifetimes(placed);
  std::vector<std::array<Bytes, kBufferKinds.size()>> change(placed.instructions.size() + 2);
  TierUse use;
  for (std::size_t b = 0; b < placed.buffers.size(); ++b) {
    const Buffer& buffer = placed.buffers[b];
    if (buffer.tier != tier || live[b].last < live[b].first) continue;
    use.peak_bytes = std::max(use.peak_bytes, buffer.offset + buffer.bytes);
    change[static_cast<std::size_t>(live[b].first)][static_cast<std::size_t>(buffer.kind)] += buffer.bytes;
    change[static_cast<std::size_t>(live[b].last) + 1][static_cast<std::size_t>(buffer.kind)] -= buffer.bytes;
  }
  std::array<Bytes, kBufferKinds.size()> now = {};
  for (const auto& delta : change) {
    for (std::size_t k = 0; k < now.size(); ++k) now[k] += delta[k];
    const Bytes sum = std::accumulate(now.begin(), now.end(), Bytes{0});
    if (sum > use.live_bytes) {
      use.live_bytes = sum;
      use.by_kind = now;
    }
  }
  return use;
}

void verify(const Program& placed, const TierBudgets& budgets) {
  verify_data_flow(placed);
  for (const Tier tier : kTiers) verify_places(placed, tier, budgets[static_cast<std::size_t>(tier)]);
}

}  // namespace strata
