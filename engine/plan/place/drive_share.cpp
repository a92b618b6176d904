#include "engine/plan/place/drive_share.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "engine/plan/place/tier_fit.h"
#include "engine/plan/program/memory.h"

namespace strata {
namespace {

Program with_spilled(const Program& program, const SpillOrder& order, std::size_t count) {
  return spill(program, {order.buffers.begin(), order.buffers.begin() + static_cast<std::ptrdiff_t>(count)});
}

/// Moves to the nvme tier what the host has no room for, from the front of `order`: as little as leaves room
/// for `visits` of the largest visits. The device's part of the program stays as it is, with its places.
std::optional<Program> fit_host(const Program& program, const SpillOrder& order, Bytes budget, Bytes visits) {
  const std::size_t end = order.buffers.size() + 1;
  const HostNeeds needs(program, order.buffers);
  const auto has_room = [&](std::size_t count) {
    const NearBytes need = needs.with_spilled(count);
    return need.smallest + (visits - 1) * need.largest_visit <= budget;
  };
  // Fragmentation may need a little more than live bytes promise.
  std::optional<Program> fitted;
  first_number_near_low(first_number(order.forced, end, has_room), end, [&](std::size_t count) {
    std::optional<Program> candidate = fit(with_spilled(program, order, count), kHostPair, budget);
    if (!candidate) return false;
    fitted = std::move(candidate);
    return true;
  });
  if (fitted) place_tier(*fitted, Tier::nvme);
  return fitted;
}

bool fits_host(const Placement& placement, const MemoryRequest& memory) {
  return fits_host(placement.training, memory) &&
         std::ranges::all_of(placement.interludes,
                             [&](const auto& interlude) { return fits_host(interlude.second, memory); });
}

/// All programs keep state in the same places: what training has put on the nvme tier must be there, and no
/// other state may.
SpillOrder interlude_order(const Program& interlude, const Program& training, const MemoryRequest& memory) {
  SpillOrder order;
  for (std::size_t b = 0; b < training.buffers.size(); ++b) {
    const Buffer& buffer = training.buffers[b];
    if (buffer.persistent && buffer.tier == Tier::nvme) order.buffers.push_back(static_cast<BufferId>(b));
  }
  order.forced = order.buffers.size();
  for (const BufferId id : find_spill_order(interlude, memory.wanted).buffers) {
    if (!interlude.buffer(id).persistent) order.buffers.push_back(id);
  }
  return order;
}

/// The largest of all programs' use.
Bytes peak_bytes(const Placement& placement, Tier tier) {
  Bytes peak = peak_of(placement.training, tier);
  for (const auto& [interlude, program] : placement.interludes) peak = std::max(peak, peak_of(program, tier));
  return peak;
}

/// With all that may leave the host on the nvme tier, in the form that `make` gives its programs.
template <typename Make>
Placement with_all_spilled(const Placement& placement, const MemoryRequest& memory, const Make& make) {
  const auto spilled = [&](const Program& program, const SpillOrder& order) {
    return make(with_spilled(program, order, order.buffers.size()));
  };
  Placement result{placement.strategy,
                   spilled(placement.training, find_spill_order(placement.training, memory.wanted))};
  for (const auto& [interlude, program] : placement.interludes)
    result.interludes[interlude] = spilled(program, interlude_order(program, result.training, memory));
  return result;
}

/// What the host has no room for goes to the nvme tier; nothing if that leaves too little room for
/// `visits` visits.
std::optional<Placement> spill_to_nvme(const Placement& placement, const MemoryRequest& memory,
                                       Bytes visits) {
  const SpillOrder order = find_spill_order(placement.training, memory.wanted);
  if (fits_host(placement, memory) && order.forced == 0) return placement;
  std::optional<Program> training = fit_host(placement.training, order, *memory.host, visits);
  if (!training) return std::nullopt;
  Placement spilled{placement.strategy, std::move(*training)};
  for (const auto& [interlude, program] : placement.interludes) {
    std::optional<Program> fitted =
        fit_host(program, interlude_order(program, spilled.training, memory), *memory.host, visits);
    if (!fitted) return std::nullopt;
    spilled.interludes[interlude] = std::move(*fitted);
  }
  return spilled;
}

}  // namespace

bool lacks_drives(Bytes needed, const MemoryRequest& memory, Shortage& shortage) {
  if (needed <= *memory.nvme) return false;
  shortage.nvme = std::min(shortage.nvme, needed);
  return true;
}

bool fits_host(const Program& placed, const MemoryRequest& memory) {
  return !memory.host || peak_of(placed, Tier::host) <= *memory.host;
}

Bytes smallest_host_bytes(const Placement& placement, const MemoryRequest& memory) {
  const Bytes unspilled = peak_bytes(placement, Tier::host);
  if (!memory.nvme) return unspilled;
  const auto place_on_host = [](Program program) {
    place_tier(program, Tier::host);
    return program;
  };
  const Bytes spilled = peak_bytes(with_all_spilled(placement, memory, place_on_host), Tier::host);
  const bool may_stay = find_spill_order(placement.training, memory.wanted).forced == 0;
  return may_stay ? std::min(unspilled, spilled) : spilled;
}

std::optional<Placement> share_with_drives(const Placement& placement, const MemoryRequest& memory,
                                           Shortage& shortage) {
  const auto fits = [&](const Placement& spilled) {
    return !lacks_drives(peak_bytes(spilled, Tier::nvme), memory, shortage);
  };
  for (const Bytes visits : {3, 1}) {
    std::optional<Placement> spilled = spill_to_nvme(placement, memory, visits);
    if (spilled && fits(*spilled)) return spilled;
  }
  std::optional<Placement> spilled = with_all_spilled(placement, memory, [&](Program program) {
    Program fitted = fit(std::move(program), kHostPair, *memory.host).value();
    place_tier(fitted, Tier::nvme);
    return fitted;
  });
  if (!fits(*spilled)) spilled.reset();
  return spilled;
}

}  // namespace strata
