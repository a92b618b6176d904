#include "engine/plan/program/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/packer.h"
#include "engine/plan/program/rounds.h"

namespace strata {
namespace {

[[noreturn]] void defect(const Program& program, std::size_t instruction, const std::string& what) {
  throw std::logic_error(fmt::format("program defect at {} ({}): {}", instruction,
                                     print(program, program.instructions[instruction]), what));
}

void verify_transfer(const Program& program, std::size_t i) {
  const Operand& source = program.instructions[i].reads[0];
  const Operand& destination = program.instructions[i].writes[0];
  if (program.buffer(source.buffer).bytes != program.buffer(destination.buffer).bytes)
    defect(program, i, "source and destination differ in size");
  if (source.type != destination.type || source.elements != destination.elements)
    defect(program, i, "source and destination differ in what stands in them");
}

/// The rounds in which a buffer holds something before any instruction has written to it.
RoundSet rounds_filled(const Buffer& buffer) {
  return buffer.persistent ? rounds_of(Serves::both) : buffer.carried ? rounds_of(Serves::step_before) : 0;
}

void verify_data_flow(const Program& program) {
  std::vector<bool> only_when_saving(program.buffers.size(), false);
  std::vector<RoundSet> written;
  for (const Buffer& buffer : program.buffers) written.push_back(rounds_filled(buffer));
  // What the round's own step has made is found by the round behind.
  std::vector<bool> is_of_step(program.buffers.size(), false);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const RoundSet rounds = rounds_of(instruction.serves);
    for (const Operand& operand : instruction.reads) {
      if (instruction.serves == Serves::step_before && nth(is_of_step, operand.buffer)) {
        defect(program, i,
               *program.buffer(operand.buffer).name + " is read for the step before, behind the step's own");
      }
      if (!is_within(rounds, nth(written, operand.buffer))) {
        defect(program, i, *program.buffer(operand.buffer).name + " is read before it is written");
      }
      if (nth(only_when_saving, operand.buffer) && instruction.when != When::saving) {
        defect(program, i, *program.buffer(operand.buffer).name + " is written only in steps that save");
      }
    }
    for (const Operand& operand : instruction.writes) {
      nth(is_of_step, operand.buffer) =
          program.buffer(operand.buffer).carried && instruction.serves == Serves::step;
      nth(written, operand.buffer) |= rounds;
      nth(only_when_saving, operand.buffer) = instruction.when == When::saving;
    }
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      if (operand.bytes() > program.buffer(operand.buffer).bytes)
        defect(program, i, *program.buffer(operand.buffer).name + " is smaller than what stands in it");
    });
    if (is_transfer(instruction.operation)) verify_transfer(program, i);
  }
}

/// Buffers of the tier that are ever touched; they must be within it.
std::vector<std::size_t> buffers_of(const Program& program, Tier tier, Bytes budget,
                                    const std::vector<Lifetime>& live) {
  std::vector<std::size_t> found;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier || live[b].is_empty()) continue;
    if (buffer.offset < 0 || buffer.offset % kBufferAlignment != 0 || buffer.offset + buffer.bytes > budget) {
      throw std::logic_error(fmt::format("program defect: {}:{} at {} leaves its tier of {} bytes",
                                         name_of(tier), *buffer.name, buffer.offset, budget));
    }
    if (buffer.bytes > 0) found.push_back(b);
  }
  return found;
}

/// Sweeps the starts and ends of lifetimes, holding the live buffers sorted by offset: neighbours must not
/// touch.
void verify_places(const Program& program, Tier tier, Bytes budget) {
  struct Stretch {
    std::size_t buffer;
    std::int32_t first, last;
  };
  const std::vector<Lifetime> live = lifetimes(program);
  std::vector<Stretch> starting;
  for (const std::size_t b : buffers_of(program, tier, budget, live)) {
    live[b].for_each_stretch(static_cast<std::int32_t>(program.instructions.size()),
                             [&](std::int32_t first, std::int32_t last) {
                               starting.push_back({b, first, last});
                             });
  }
  std::vector<Stretch> ending = starting;
  std::ranges::sort(starting, {}, &Stretch::first);
  std::ranges::sort(ending, {}, &Stretch::last);
  std::map<Bytes, std::size_t> now;  // by offset
  auto ended = ending.begin();
  for (const auto& [b, first, last] : starting) {
    for (; ended->last < first; ++ended) now.erase(program.buffers[ended->buffer].offset);
    const Buffer& buffer = program.buffers[b];
    const auto fail = [&](std::size_t other) {
      throw std::logic_error(fmt::format("program defect: {}:{} and {} overlap while both are live",
                                         name_of(tier), *program.buffers[other].name, *buffer.name));
    };
    const auto [place, is_free] = now.emplace(buffer.offset, b);
    if (!is_free) fail(place->second);
    if (const auto above = std::next(place);
        above != now.end() && above->first < buffer.offset + buffer.bytes)
      fail(above->second);
    if (place == now.begin()) continue;
    const auto below = std::prev(place);
    if (below->first + program.buffers[below->second].bytes > buffer.offset) fail(below->second);
  }
}

TierUse use_of(const Program& program, Tier tier, const std::vector<Lifetime>& live) {
  const std::size_t count = program.instructions.size();
  std::vector<EnumArray<BufferKind, Bytes>> change(count + 2);
  TierUse use;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier || live[b].is_empty()) continue;
    use.peak_bytes = std::max(use.peak_bytes, buffer.offset + buffer.bytes);
    live[b].for_each_stretch(static_cast<std::int32_t>(count), [&](std::int32_t first, std::int32_t last) {
      nth(change, first)[buffer.kind] += buffer.bytes;
      nth(change, last + 1)[buffer.kind] -= buffer.bytes;
    });
  }
  EnumArray<BufferKind, Bytes> now;
  for (const auto& delta : change) {
    for (const BufferKind kind : kBufferKinds) now[kind] += delta[kind];
    const Bytes sum = std::accumulate(now.begin(), now.end(), Bytes{0});
    if (sum > use.live_bytes) {
      use.live_bytes = sum;
      use.by_kind = now;
    }
  }
  return use;
}

/// The largest sum of live buffers.
Bytes live_bytes(const Program& program, Tier tier, const std::vector<Lifetime>& live) {
  const std::size_t count = program.instructions.size();
  std::vector<Bytes> change(count + 1, 0);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier) continue;
    live[b].for_each_stretch(static_cast<std::int32_t>(count), [&](std::int32_t first, std::int32_t last) {
      nth(change, first) += buffer.bytes;
      nth(change, last + 1) -= buffer.bytes;
    });
  }
  Bytes now = 0, largest = 0;
  for (const Bytes delta : change) largest = std::max(largest, now += delta);
  return largest;
}

/// All of a round.
Lifetime throughout(std::int32_t count) {
  return {0, std::max(count - 1, 0)};
}

/// A lifetime that ends `pause` instructions later, if need be in the next round.
Lifetime lengthened(const Lifetime& live, std::int32_t pause, std::int32_t count) {
  if (live.is_empty()) return live;
  const std::int32_t length = live.last - live.first + 1 + (live.wraps() ? count : 0);
  if (length + pause >= count) return throughout(count);
  return {live.first, (live.last + pause) % count};
}

/// Transient buffers that a tier can give places of their own, since all of them together take next to
/// nothing of it: tokens, losses, norms. What is done early in a step then never waits for what is done
/// late in the step before.
std::vector<std::size_t> small_buffers(const Program& program, Tier tier, const std::vector<Lifetime>& live) {
  constexpr Bytes kShare = 1024;
  std::vector<std::size_t> found;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier == tier && !buffer.persistent && !live[b].is_empty()) found.push_back(b);
  }
  std::ranges::stable_sort(found, {}, [&](std::size_t b) { return program.buffers[b].bytes; });
  Bytes room = live_bytes(program, tier, live) / kShare;
  const auto first_large = std::ranges::find_if(found, [&](std::size_t b) {
    room -= program.buffers[b].bytes;
    return room < 0;
  });
  found.erase(first_large, found.end());
  return found;
}

/// Those of the host through which drives are read and written: also between rounds, when all that is
/// persistent holds something.
std::vector<bool> staging_buffers(const Program& program, Tier tier) {
  std::vector<bool> is_staging(program.buffers.size(), false);
  if (tier != Tier::host) return is_staging;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::read) nth(is_staging, instruction.writes[0].buffer) = true;
    if (instruction.operation == Operation::write) nth(is_staging, instruction.reads[0].buffer) = true;
  }
  return is_staging;
}

/// Where persistent buffers in a row end, and below which byte of it all of them stay.
struct Row {
  Bytes end = 0, first_free = 0;
};

Row place_in_a_row(Program& program, const std::vector<std::size_t>& persistent,
                   const std::vector<Lifetime>& live) {
  Row row;
  for (const std::size_t b : persistent) {
    Buffer& buffer = program.buffers[b];
    buffer.offset = std::exchange(row.end, row.end + buffer.bytes);
    if (!live[b].wraps() && row.first_free == buffer.offset) row.first_free = row.end;
  }
  return row;
}

/// What drives are read and written through must not be where something lives between rounds.
void verify_staging(const Program& placed) {
  const std::vector<bool> is_staging = staging_buffers(placed, Tier::host);
  std::map<Bytes, std::size_t> renewed;  // by offset
  for (std::size_t b = 0; b < placed.buffers.size(); ++b) {
    const Buffer& buffer = placed.buffers[b];
    if (buffer.renewed && buffer.tier == Tier::host) renewed.emplace(buffer.offset, b);
  }
  for (std::size_t b = 0; b < placed.buffers.size(); ++b) {
    const Buffer& buffer = placed.buffers[b];
    if (!is_staging[b] || buffer.tier != Tier::host) continue;
    const auto above = renewed.lower_bound(buffer.offset + buffer.bytes);
    if (above == renewed.begin()) continue;
    const Buffer& below = placed.buffers[std::prev(above)->second];
    if (below.offset + below.bytes > buffer.offset)
      throw std::logic_error(
          fmt::format("program defect: drives are read or written through {}, which is where {} lives",
                      *buffer.name, *below.name));
  }
}

}  // namespace

Bytes place_tier(Program& program, Tier tier, PlaceOrder order, std::int32_t pause) {
  const auto count = static_cast<std::int32_t>(program.instructions.size());
  std::vector<Lifetime> live = lifetimes(program);
  if (pause > 0) {
    for (std::size_t b = 0; b < live.size(); ++b)
      if (!program.buffers[b].persistent) live[b] = lengthened(live[b], pause, count);
  }
  for (const std::size_t b : small_buffers(program, tier, live)) live[b] = throughout(count);
  const auto is_pinned = [&](const Buffer& buffer) { return buffer.pin && buffer.pin->tier == tier; };
  std::vector<std::size_t> pinned, persistent, transient;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != tier) continue;
    (is_pinned(buffer) ? pinned : buffer.persistent ? persistent : transient).push_back(b);
  }
  const auto size = [&](std::size_t b) {
    const auto bytes = static_cast<std::uint64_t>(program.buffers[b].bytes);
    return order == PlaceOrder::by_size ? bytes : std::bit_floor(bytes);
  };
  if (order == PlaceOrder::by_end)
    std::ranges::stable_sort(transient, {}, [&](std::size_t b) { return live[b].last; });
  std::ranges::stable_sort(transient, std::greater<>(), size);
  const bool are_in_a_row = pinned.empty();
  if (!are_in_a_row) {  // of several models; each may sit out a round
    for (const std::vector<std::size_t>* buffers : {&pinned, &persistent})
      for (const std::size_t b : *buffers) live[b] = throughout(count);
  }
  std::vector<Lifetime> lifetimes;
  for (const std::vector<std::size_t>* buffers : {&pinned, &persistent, &transient}) {
    for (const std::size_t b : *buffers) lifetimes.push_back(live[b]);
  }
  const Row row = are_in_a_row ? place_in_a_row(program, persistent, live) : Row{};
  Packer packer(lifetimes, row.first_free);
  if (are_in_a_row) {
    for (const std::size_t b : persistent) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.offset >= row.first_free) packer.take(buffer.offset, buffer.bytes, live[b]);
    }
    persistent.clear();
  }
  for (const std::size_t b : pinned) {
    Buffer& buffer = program.buffers[b];
    buffer.offset = buffer.pin->offset;
    packer.take(buffer.offset, buffer.bytes, live[b]);
  }
  const std::vector<bool> is_staging = staging_buffers(program, tier);
  for (const std::vector<std::size_t>* buffers : {&persistent, &transient}) {
    for (const std::size_t b : *buffers) {
      Buffer& buffer = program.buffers[b];
      const Bytes least = is_staging[b] ? row.end : 0;
      buffer.offset = live[b].is_empty() ? row.end : packer.place(buffer.bytes, live[b], least);
    }
  }
  Bytes peak = 0;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier == tier && !live[b].is_empty()) peak = std::max(peak, buffer.offset + buffer.bytes);
  }
  return peak;
}

Program place(const Program& program) {
  Program result = program;
  for (const Tier tier : kTiers) place_tier(result, tier);
  return result;
}

std::vector<Bytes> places_of(const Program& placed) {
  std::vector<Bytes> places;
  places.reserve(placed.buffers.size());
  std::ranges::transform(placed.buffers, std::back_inserter(places), &Buffer::offset);
  return places;
}

void put_back(Program& program, const std::vector<Bytes>& places) {
  for (std::size_t b = 0; b < places.size(); ++b) program.buffers[b].offset = places[b];
}

TierUse tier_use(const Program& placed, Tier tier) {
  return use_of(placed, tier, lifetimes(placed));
}

void verify(const Program& placed, const TierBudgets& budgets) {
  verify_data_flow(placed);
  verify_staging(placed);
  for (const Tier tier : kTiers) verify_places(placed, tier, budgets[tier]);
}

}  // namespace strata
