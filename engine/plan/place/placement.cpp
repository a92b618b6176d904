#include "engine/plan/place/placement.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/place/drive_share.h"
#include "engine/plan/place/tier_fit.h"
#include "engine/plan/program/memory.h"

namespace strata {
namespace {

/// Places values of the host so that copies to it early in a step wait little for work that is late in the
/// step before, such as an update with its gradients. They wait the less the more room there is.
void place_on_host(Program& program, Bytes budget) {
  constexpr Bytes kMore = 8;              // at most an eighth of what it needs
  constexpr std::size_t kShortPause = 8;  // instructions that nothing waits for long
  Bytes lowest = place_tier(program, Tier::host);
  const Bytes most = std::min(budget, lowest + lowest / kMore);
  std::vector<Bytes> best = places_of(program);
  for (std::size_t pause = program.instructions.size() / 2; pause > kShortPause; pause /= 4) {
    const Bytes peak = place_tier(program, Tier::host, PlaceOrder::by_size, static_cast<std::int32_t>(pause));
    if (peak <= most) return;
    if (peak < lowest) best = places_of(program);
    lowest = std::min(lowest, peak);
  }
  put_back(program, best);
}

/// What fits the device, with what is beyond it on the host.
std::optional<Program> fit_device(Program plain, const MemoryRequest& memory, double kept_share = 1) {
  std::optional<Program> placed = fit(std::move(plain), kDevicePair, memory.device, kept_share);
  if (placed) place_on_host(*placed, memory.host.value_or(kUnlimited));
  return placed;
}

/// A plain program, unchanged if values may leave the device; if there is no other tier they all stay, but
/// for what can be gathered again.
Program as_tiers_allow(Program plain, const MemoryRequest& memory) {
  return memory.host ? std::move(plain) : keep_resident(plain, kDevicePair, kUnlimited, 0);
}

/// Orders in which an interlude may pass the model: the training's, and the one that keeps less. Samples are
/// one microbatch.
std::vector<Order> orders_of(Interlude interlude, const Strategy& strategy) {
  if (strategy.order == Order::microbatch_major || interlude == Interlude::sampling) return {strategy.order};
  return {strategy.order, Order::microbatch_major};
}

/// Takes of each interlude's plain programs the first that fits, and of those with too little room on the
/// host the one that needs least. False if the device has no room for any.
bool place_interludes(PlainInterludes&& interludes, Placement& placement, const MemoryRequest& memory) {
  for (auto& [interlude, plain] : interludes) {
    std::optional<Program> best;
    for (Program& program : plain) {
      std::optional<Program> candidate = fit_device(std::move(program), memory);
      if (!candidate) continue;
      if (!best || peak_of(*candidate, Tier::host) < peak_of(*best, Tier::host)) best = std::move(candidate);
      if (fits_host(*best, memory)) break;
    }
    if (!best) return false;
    placement.interludes[interlude] = std::move(*best);
  }
  return true;
}

/// The state of no unit is wanted there.
bool no_state_on_device(const MemoryRequest& memory) {
  const auto away = [](TierChoice choice) {
    return choice == TierChoice::host || choice == TierChoice::nvme;
  };
  return away(memory.wanted[BufferKind::optimizer_state]) || away(memory.wanted[BufferKind::parameter]);
}

/// The last tier beyond the device, if these tiers lack room for as much.
std::optional<Tier> tier_without_room(Bytes needed, const MemoryRequest& memory, Shortage& shortage) {
  if (!memory.host) return std::nullopt;
  if (memory.nvme) {
    const bool lacks = lacks_drives(needed - *memory.host, memory, shortage);
    return lacks ? std::optional(Tier::nvme) : std::nullopt;
  }
  if (needed <= *memory.host) return std::nullopt;
  shortage.host = std::min(shortage.host, needed);
  return Tier::host;
}

/// Whether forward passes wait for drives, which read in the program's order: then a sweep of all updates
/// before them holds them up.
bool reads_parameters(const Program& program) {
  return std::ranges::any_of(program.buffers, [](const Buffer& buffer) {
    return buffer.tier == Tier::nvme && buffer.kind == BufferKind::parameter;
  });
}

Bytes moved_by_drives(const Placement& placement) {
  return moved_bytes(placement.training, Operation::read) + moved_bytes(placement.training, Operation::write);
}

/// `placement` shared out between host and nvme tier with updates right before the next forward passes;
/// nothing if nobody waits for them elsewhere, or if it takes more: `shared` is how it is without that.
std::optional<Placement> with_late_updates(const Model& model, const Placement& placement,
                                           const Placement& shared, const MemoryRequest& memory) {
  if (!placement.strategy.global_norm || placement.strategy.is_asynchronous() ||
      !reads_parameters(shared.training))
    return std::nullopt;
  Placement late = placement;
  late.strategy.updates_late = true;
  Program plain = leanest_training(model, late.strategy, memory);
  if (near_bytes(plain, kDevicePair).smallest > memory.device) return std::nullopt;
  std::optional<Program> training = fit_device(std::move(plain), memory);
  if (!training) return std::nullopt;
  late.training = std::move(*training);
  if (smallest_host_bytes(late, memory) > *memory.host) return std::nullopt;
  Shortage shortage;
  std::optional<Placement> result = share_with_drives(late, memory, shortage);
  constexpr Bytes kMore = 8;  // an eighth is less than forward passes can gain
  const Bytes before = moved_by_drives(shared);
  if (result && moved_by_drives(*result) > before + before / kMore) return std::nullopt;
  return result;
}

}  // namespace

std::optional<TimedPlacement> shortest_by_thirds(
    std::size_t low, std::size_t high, std::size_t tries,
    const std::function<std::optional<Placement>(std::size_t)>& place, const Seconds& seconds_of) {
  std::optional<TimedPlacement> best;
  std::map<std::size_t, double> known;
  std::size_t placed = 0;
  const auto seconds = [&](std::size_t number) {
    const auto [time, is_new] = known.try_emplace(number, std::numeric_limits<double>::infinity());
    if (!is_new) return time->second;
    std::optional<Placement> placement = place(number);
    if (!placement) return time->second;
    ++placed;
    time->second = seconds_of(placement->training);
    if (!best || time->second < best->seconds) best = {std::move(*placement), time->second};
    return time->second;
  };
  constexpr std::size_t kRefused = 2;  // for each: what has no room is found out sooner
  while (low <= high && placed < tries && known.size() < (1 + kRefused) * tries) {
    const std::size_t third = (high - low) / 3, left = low + third, right = high - third;
    if (seconds(left) > seconds(right)) {
      low = left + 1;
    } else if (right > low) {
      high = right - 1;
    } else {
      break;
    }
  }
  return best;
}

Strategy with_device_state(Strategy strategy, std::size_t units, std::size_t first_unit) {
  for (std::size_t u = 0; u < strategy.state.size(); ++u) {
    const bool is_there = u >= first_unit && u - first_unit < units;
    strategy.state[u] = is_there ? Tier::device : Tier::host;
  }
  return strategy;
}

Bytes bytes_beyond_device(const Program& program, Bytes kept_near) {
  Bytes state = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.tier == Tier::host) state += buffer.bytes;
  }
  return std::max(state, tier_use(program, Tier::host).live_bytes - kept_near);
}

PlainInterludes plain_interludes(const Model& model, const Strategy& strategy, const MemoryRequest& memory) {
  PlainInterludes interludes;
  for (const Interlude interlude : kInterludes) {
    if (!has(strategy, interlude)) continue;
    for (const Order order : orders_of(interlude, strategy)) {
      Strategy in_order = strategy;
      in_order.order = order;
      interludes[interlude].push_back(as_tiers_allow(lower_interlude(interlude, model, in_order), memory));
    }
  }
  return interludes;
}

std::optional<Placement> place_plain(Program training, PlainInterludes interludes,
                                     const MemoryRequest& memory, double kept_share, Shortage& shortage) {
  if (near_bytes(training, kDevicePair).smallest > memory.device) return std::nullopt;
  if (tier_without_room(bytes_beyond_device(training, memory.device), memory, shortage)) return std::nullopt;
  Placement placement;
  std::optional<Program> placed = fit_device(std::move(training), memory, kept_share);
  if (!placed) return std::nullopt;
  placement.training = std::move(*placed);
  if (!place_interludes(std::move(interludes), placement, memory)) return std::nullopt;
  if (!memory.host) return placement;
  if (const Bytes needed = smallest_host_bytes(placement, memory); needed > *memory.host) {
    shortage.host = std::min(shortage.host, needed);
    return std::nullopt;
  }
  return memory.nvme ? share_with_drives(placement, memory, shortage) : std::optional(std::move(placement));
}

Program leanest_training(const Model& model, const Strategy& strategy, const MemoryRequest& memory) {
  return as_tiers_allow(lower_training(model, strategy), memory);
}

Bytes smallest_device_bytes(const Model& model, const Strategy& strategy, const MemoryRequest& memory) {
  const auto peak = [](Program program) { return place_tier(program, Tier::device); };
  Bytes largest = peak(leanest_training(model, strategy, memory));
  for (auto& [interlude, programs] : plain_interludes(model, strategy, memory)) {
    Bytes smallest = kUnlimited;
    for (Program& program : programs) smallest = std::min(smallest, peak(std::move(program)));
    largest = std::max(largest, smallest);
  }
  return largest;
}

bool all_state_on_device(const MemoryRequest& memory) {
  return !memory.host || memory.wanted[BufferKind::optimizer_state] == TierChoice::device;
}

bool may_choose_state(const MemoryRequest& memory) {
  return !all_state_on_device(memory) && !no_state_on_device(memory);
}

PlacementSearch::Attempt PlacementSearch::attempt(std::size_t units, const MemoryRequest& memory,
                                                  Shortage& shortage) {
  Needs& needs = needs_[units];
  const auto exceeds_device = [&] {
    needs.exceeds_device = true;
    return Attempt{.full = Tier::device};
  };
  const auto tier_that_lacks = [&]() -> std::optional<Tier> {
    const std::optional<Tier> full = tier_without_room(needs.beyond_device, memory, shortage);
    if (full || !memory.host || needs.host <= *memory.host) return full;
    shortage.host = std::min(shortage.host, needs.host);
    return Tier::host;
  };
  if (needs.exceeds_device) return {.full = Tier::device};
  if (const auto full = tier_that_lacks()) return {.full = full};

  Placement placement{with_device_state(strategy_, units, first_unit_), {}};
  Program plain = leanest_training(*model_, placement.strategy, memory);
  if (near_bytes(plain, kDevicePair).smallest > memory.device) return exceeds_device();
  needs.beyond_device = std::max(needs.beyond_device, bytes_beyond_device(plain, memory.device));
  if (const auto full = tier_that_lacks()) return {.full = full};

  std::optional<Program> training = fit_device(std::move(plain), memory);
  if (!training) return exceeds_device();
  placement.training = std::move(*training);
  needs.beyond_device = std::max(needs.beyond_device, bytes_beyond_device(placement.training, 0));
  if (const auto full = tier_that_lacks()) return {.full = full};

  if (!place_interludes(plain_interludes(*model_, placement.strategy, memory), placement, memory))
    return exceeds_device();
  if (!memory.host) return {.placement = std::move(placement)};
  // What fits may be placed more loosely than it needs.
  if (const Bytes host = smallest_host_bytes(placement, memory); host > *memory.host) needs.host = host;
  if (const auto full = tier_that_lacks()) return {.full = full};
  if (!memory.nvme) return {.placement = std::move(placement)};
  std::optional<Placement> shared = share_with_drives(placement, memory, shortage);
  if (!shared) return {.full = Tier::nvme};
  std::optional<Placement> late = with_late_updates(*model_, placement, *shared, memory);
  return {.placement = late ? std::move(late) : std::move(shared)};
}

const std::vector<PlacementSearch::UnitsWithRoom>& PlacementSearch::units_with_room(Bytes device) {
  if (!units_with_room_.empty()) return units_with_room_;
  const auto plain = [&](std::size_t count) {
    return lower_training(*model_, with_device_state(strategy_, count, first_unit_));
  };
  const auto with_cost = [&](std::size_t count) {
    return UnitsWithRoom{count, step_cost(plain(count), device, rates_).value()};
  };
  const auto [units, fewer] = largest_with_room(model_->units.size(), device, plain);
  UnitsWithRoom all{units, {}};
  if (fewer < units) {
    all = with_cost(units);
    const UnitsWithRoom gathered = with_cost(fewer);
    if (gathered.cost.seconds < all.cost.seconds) units_with_room_.push_back(gathered);
  }
  units_with_room_.push_back(all);
  return units_with_room_;
}

std::optional<Placement> PlacementSearch::find(const MemoryRequest& memory, Shortage& shortage) {
  const std::size_t units = model_->units.size();
  const auto with_units = [&](std::size_t count) { return attempt(count, memory, shortage); };
  if (all_state_on_device(memory)) return with_units(units).placement;
  if (no_state_on_device(memory)) return with_units(0).placement;
  std::size_t on_device = 0;
  Attempt tried;
  std::optional<Placement> found;
  StepCost found_cost;
  for (const auto& [most, cost] : units_with_room(memory.device)) {
    if (found && !is_cheaper(cost, found_cost)) break;  // placing it can only add to it
    on_device = most;
    tried = with_units(on_device);
    // Fragmentation may leave a little less room than live bytes promise.
    while (tried.full == Tier::device && on_device > 0) tried = with_units(--on_device);
    if (!tried.placement) continue;
    const StepCost placed = placed_cost(tried.placement->training, rates_);
    if (found && !is_cheaper(placed, found_cost)) continue;
    found = std::move(tried.placement);
    found_cost = placed;
  }
  if (found || tried.full == Tier::device) return found;
  // The fewest more that leave the other tiers enough room.
  first_number(on_device + 1, units + 1, [&](std::size_t count) {
    tried = with_units(count);
    if (tried.placement) found = std::move(tried.placement);
    return !tried.full || tried.full == Tier::device;
  });
  return found;
}

std::optional<Placement> PlacementSearch::find_with(std::size_t units, const MemoryRequest& memory) {
  Shortage unused;
  return attempt(units, memory, unused).placement;
}

std::optional<PlacementSearch> PlacementSearch::above_first() const {
  const std::vector<Unit>& units = model_->units;
  if (units.size() < 2 || units[0].elements <= units[1].elements) return std::nullopt;
  return PlacementSearch(*model_, strategy_, rates_, 1);
}

std::optional<TimedPlacement> PlacementSearch::with_more_state(const Placement& found,
                                                               const MemoryRequest& memory,
                                                               const Seconds& seconds_of, std::size_t tries) {
  if (!may_choose_state(memory)) return std::nullopt;
  const bool goes_on = first_unit_ == 0 || found.strategy.state.front() != Tier::device;
  std::size_t first = 1, last = 0;
  for (std::size_t u = first_unit_; u < strategy_.state.size(); ++u) {
    if (!strategy_.has(static_cast<std::int32_t>(u))) continue;
    last = u + 1 - first_unit_;
    if (goes_on && found.strategy.state[u] == Tier::device) first = last + 1;
  }
  const auto place = [&](std::size_t count) { return find_with(count, memory); };
  return shortest_by_thirds(first, last, tries, place, seconds_of);
}

}  // namespace strata
