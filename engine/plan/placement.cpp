#include "engine/plan/placement.h"

#include <algorithm>
#include <stdexcept>

#include "engine/plan/lower.h"
#include "engine/plan/memory.h"
#include "engine/plan/prefetch.h"
#include "engine/plan/residency.h"
#include "engine/plan/spill.h"

namespace strata {
namespace {

/// The fast form of a level's plain program whose near tier stays within `budget`; nothing where even the plain form is larger.
/// Fragmentation can push a placement over what live bytes promise: then passes get that much less to fill.
std::optional<Program> fit(const Program& plain, const Level& level, Bytes budget) {
  const Bytes smallest = near_bytes(plain, level).smallest;
  if (budget < smallest) return std::nullopt;
  for (Bytes allowed = budget; allowed > smallest;) {
    const Program resident = keep_resident(plain, level, allowed);
    for (Bytes filled = allowed;;) {
      Program placed = place(prefetch(resident, level, filled));
      const Bytes over = tier_use(placed, level.near).peak_bytes - budget;
      if (over <= 0) return placed;
      if (filled <= smallest) break;
      filled = std::max(smallest, filled - std::max(over, filled / 64));
    }
    allowed = std::max(smallest, allowed - allowed / 32);
  }
  Program placed = place(plain);
  if (tier_use(placed, level.near).peak_bytes > budget) return std::nullopt;
  return placed;
}

/// Bytes on the host that are more than messages to and from the device (tokens, losses, norms).
Bytes host_state_bytes(const TierUse& host) {
  return host.live_bytes - host.by_kind[static_cast<std::size_t>(BufferKind::communication)];
}

bool fits_host(const Program& placed, const RunConfig& config) {
  const TierUse use = tier_use(placed, Tier::host);
  return config.memory.host ? use.peak_bytes <= *config.memory.host : host_state_bytes(use) == 0;
}

Program with_spilled(const Program& program, const SpillOrder& order, std::size_t count) {
  return spill(program, {order.buffers.begin(), order.buffers.begin() + static_cast<std::ptrdiff_t>(count)});
}

/// Moves to the nvme tier what the host has no room for, from the front of `order`: as little as leaves room for so many of the
/// largest visit.
std::optional<Program> fit_host(const Program& program, const SpillOrder& order, Bytes budget, Bytes visits) {
  const auto has_room = [&](std::size_t count) {
    const NearBytes need = near_bytes(with_spilled(program, order, count), kHostLevel);
    return need.smallest + (visits - 1) * need.largest_visit <= budget;
  };
  // Fragmentation may need a little more than live bytes promise.
  for (std::size_t count = first_number(order.forced, order.buffers.size() + 1, has_room); count <= order.buffers.size(); ++count) {
    if (auto fitted = fit(with_spilled(program, order, count), kHostLevel, budget)) return fitted;
  }
  return std::nullopt;
}

/// In the training's order; where that keeps more on the host than it may, in the order that keeps less.
std::optional<Program> place_validation(const Model& model, Strategy strategy, const RunConfig& config) {
  if (strategy.validation_microbatches == 0) return std::nullopt;
  std::optional<Program> program;
  for (const Order order : {strategy.order, Order::microbatch_major}) {
    strategy.order = order;
    std::optional<Program> candidate = fit(lower_validation(model, strategy), kDeviceLevel, config.memory.device);
    if (!candidate) throw std::logic_error("a validation pass needs more device memory than a training step");
    const auto host_bytes = [](const Program& placed) { return tier_use(placed, Tier::host).peak_bytes; };
    if (!program || host_bytes(*candidate) < host_bytes(*program)) program = std::move(candidate);
    if (fits_host(*program, config)) break;
  }
  return program;
}

bool fits_host(const Placement& placement, const RunConfig& config) {
  return fits_host(placement.training, config) &&
         (!placement.validation || fits_host(*placement.validation, config));
}

/// Both programs keep state in the same places: what training has put on the nvme tier must be there, and no other state may.
SpillOrder validation_order(const Program& validation, const Program& training, const RunConfig& config) {
  SpillOrder order;
  for (std::size_t b = 0; b < training.buffers.size(); ++b) {
    const Buffer& buffer = training.buffers[b];
    if (buffer.persistent && buffer.tier == Tier::nvme) order.buffers.push_back(static_cast<BufferId>(b));
  }
  order.forced = order.buffers.size();
  for (const BufferId id : find_spill_order(validation, config.memory).buffers) {
    if (!validation.buffer(id).persistent) order.buffers.push_back(id);
  }
  return order;
}

/// What the host has no room for goes to the nvme tier; nothing where even that is not enough.
std::optional<Placement> spill_to_nvme(const Placement& placement, const RunConfig& config, Bytes visits) {
  const SpillOrder order = find_spill_order(placement.training, config.memory);
  if (fits_host(placement, config) && order.forced == 0) return placement;
  std::optional<Program> training = fit_host(placement.training, order, *config.memory.host, visits);
  if (!training) return std::nullopt;
  Placement spilled{placement.strategy, std::move(*training)};
  if (placement.validation) {
    spilled.validation =
        fit_host(*placement.validation, validation_order(*placement.validation, spilled.training, config),
                 *config.memory.host, visits);
    if (!spilled.validation) return std::nullopt;
  }
  return spilled;
}

/// The larger of both programs' use.
Bytes peak_bytes(const Placement& placement, Tier tier) {
  const Bytes training = tier_use(placement.training, tier).peak_bytes;
  return placement.validation ? std::max(training, tier_use(*placement.validation, tier).peak_bytes) : training;
}

/// The least host memory that a placement runs in.
Bytes smallest_host_bytes(Placement placement, const RunConfig& config) {
  if (config.memory.nvme_path.empty()) return peak_bytes(placement, Tier::host);
  const auto spill_all = [](Program& program, const SpillOrder& order) {
    program = place(with_spilled(program, order, order.buffers.size()));
  };
  spill_all(placement.training, find_spill_order(placement.training, config.memory));
  if (placement.validation)
    spill_all(*placement.validation, validation_order(*placement.validation, placement.training, config));
  return peak_bytes(placement, Tier::host);
}

/// The run file wants the state of no unit there.
bool no_state_on_device(const RunConfig& config) {
  const auto away = [](TierChoice choice) { return choice == TierChoice::host || choice == TierChoice::nvme; };
  return away(config.memory.optimizer_state) || away(config.memory.parameters);
}

/// Which tier does not hold a placement; nothing: all do.
struct Attempt {
  std::optional<Placement> placement = {};
  std::optional<Tier> full = {};
};

/// With the state of so many units on the device.
Attempt attempt(const Model& model, const Strategy& choice, std::size_t units, const RunConfig& config,
                Shortage& shortage) {
  Placement placement{with_device_state(choice, units), {}};
  std::optional<Program> training =
      fit(lower_training(model, placement.strategy), kDeviceLevel, config.memory.device);
  if (!training) return {.full = Tier::device};
  placement.training = std::move(*training);
  placement.validation = place_validation(model, placement.strategy, config);
  if (config.memory.nvme_path.empty()) {
    if (fits_host(placement, config)) return {.placement = std::move(placement)};
    shortage.host = std::min(shortage.host, smallest_host_bytes(std::move(placement), config));
    return {.full = Tier::host};
  }
  Tier full = Tier::host;
  // Room for three visits lets one unit be read and another written while a third is updated.
  for (const Bytes visits : {3, 1}) {
    std::optional<Placement> spilled = spill_to_nvme(placement, config, visits);
    if (!spilled) continue;
    const Bytes on_drives = peak_bytes(*spilled, Tier::nvme);
    if (on_drives <= config.memory.nvme_size) return {.placement = std::move(spilled)};
    shortage.nvme = std::min(shortage.nvme, on_drives);
    full = Tier::nvme;
  }
  if (full == Tier::host) shortage.host = std::min(shortage.host, smallest_host_bytes(std::move(placement), config));
  return {.full = full};
}

}  // namespace

Strategy with_device_state(Strategy strategy, std::size_t units) {
  for (std::size_t u = 0; u < strategy.state.size(); ++u)
    strategy.state[u] = u < units ? Tier::device : Tier::host;
  return strategy;
}

bool nothing_spills(const Program& plain, Bytes budget) {
  if (budget < near_bytes(plain, kDeviceLevel).smallest) return false;
  const auto traffic = [&](Bytes near_bytes) {
    const Program resident = keep_resident(plain, kDeviceLevel, near_bytes);
    return moved_bytes(resident, Operation::copy_to_device) + moved_bytes(resident, Operation::copy_to_host);
  };
  return traffic(budget) == traffic(kUnlimited);
}

bool all_state_on_device(const RunConfig& config) {
  return !config.memory.host || config.memory.optimizer_state == TierChoice::device;
}

std::optional<Placement> find_placement(const Model& model, const Strategy& strategy, const RunConfig& config,
                                        Shortage& shortage) {
  const std::size_t units = model.units.size();
  const auto with_units = [&](std::size_t count) { return attempt(model, strategy, count, config, shortage); };
  if (all_state_on_device(config)) return with_units(units).placement;
  if (no_state_on_device(config)) return with_units(0).placement;
  const auto spills = [&](std::size_t count) {
    return !nothing_spills(lower_training(model, with_device_state(strategy, count)), config.memory.device);
  };
  std::size_t on_device = first_number(1, units + 1, spills) - 1;
  Attempt tried = with_units(on_device);
  // Fragmentation may leave a little less room than live bytes promise.
  while (tried.full == Tier::device && on_device > 0) tried = with_units(--on_device);
  if (!tried.full || tried.full == Tier::device) return std::move(tried.placement);
  // The fewest more that leave the other tiers enough room.
  std::optional<Placement> found;
  first_number(on_device + 1, units + 1, [&](std::size_t count) {
    tried = with_units(count);
    if (tried.placement) found = std::move(tried.placement);
    return !tried.full || tried.full == Tier::device;
  });
  return found;
}

}  // namespace strata
