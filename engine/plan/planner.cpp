#include "engine/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "engine/base/error.h"
#include "engine/plan/lower.h"
#include "engine/plan/prefetch.h"
#include "engine/plan/rates.h"
#include "engine/plan/residency.h"
#include "engine/plan/spill.h"

namespace strata {
namespace {

Bytes traffic(const Program& program) {
  return moved_bytes(program, Operation::copy_to_device) + moved_bytes(program, Operation::copy_to_host);
}

Bytes smallest_device_bytes(const Program& plain) {
  return near_bytes(plain, kDeviceLevel).smallest;
}

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

/// Copies that no device memory avoids: parameters updated on the host, gradients on their way there, tokens
/// and losses.
bool nothing_spills(const Program& plain, Bytes budget) {
  if (budget < smallest_device_bytes(plain)) return false;
  return traffic(keep_resident(plain, kDeviceLevel, budget)) == traffic(keep_resident(plain, kDeviceLevel, kUnlimited));
}

Strategy with_device_state(Strategy strategy, std::size_t units) {
  for (std::size_t u = 0; u < strategy.state.size(); ++u)
    strategy.state[u] = u < units ? Tier::device : Tier::host;
  return strategy;
}

/// Blocks are saved from the top: their activations live shortest.
Strategy with_saved_blocks(Strategy strategy, std::size_t blocks) {
  const std::size_t head = strategy.save.size() - 1;
  for (std::size_t u = 1; u < head; ++u) strategy.save[u] = u >= head - blocks;
  return strategy;
}

/// The largest count in [0, most] that `make` turns into a strategy of which nothing spills. That is
/// monotone, so a binary search finds it.
template <typename Make>
std::size_t largest_that_fits(const Model& model, Bytes budget, std::size_t most, Make&& make) {
  std::size_t low = 0, high = most;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    const bool fits = nothing_spills(lower_training(model, make(middle)), budget);
    (fits ? low : high) = fits ? middle : middle - 1;
  }
  return low;
}

StepFlops step_flops(const Model& model, const Strategy& strategy) {
  const UnitCompute compute(model, strategy.precision, strategy.microbatch);
  StepFlops flops;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    // The head's forward happens inside its backward.
    const double forward = unit.kind == UnitKind::head ? 0 : compute.forward_flops(unit);
    flops.executed += forward + compute.backward_flops(unit, strategy.save[u]);
  }
  const auto microbatches = static_cast<double>(strategy.microbatches);
  flops.executed *= microbatches;
  flops.model = 3 * forward_flops_per_token(model, strategy.microbatch.sequence) *
                static_cast<double>(strategy.microbatch.tokens()) * microbatches;
  return flops;
}

std::vector<Order> orders_to_try(const RunConfig& config) {
  if (config.plan.order) return {*config.plan.order};
  return {Order::layer_major, Order::microbatch_major};
}

/// An order and a number of saved blocks, and what they would cost.
struct Choice {
  Strategy strategy;
  double seconds = 0;
  Bytes traffic = 0, live = 0;
};

/// Numbers of saved blocks worth comparing: none, as many as fit without anything spilling for it, all
/// (activations that do not fit then travel, which can be cheaper than computing them twice).
std::vector<std::size_t> saved_blocks_to_try(const Model& model, const Strategy& strategy, Bytes budget) {
  const std::size_t blocks = model.units.size() - 2;
  const std::size_t fitting =
      largest_that_fits(model, budget, blocks, [&](std::size_t n) { return with_saved_blocks(strategy, n); });
  std::vector<std::size_t> counts = {0, fitting, blocks};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// All that the run file leaves open, the cheapest first; of equally cheap ones the smallest.
std::vector<Choice> choices(const Model& model, const Strategy& base, const RunConfig& config) {
  const Bytes budget = config.memory.device;
  const MachineRates rates = planning_rates(config);
  std::vector<Choice> result;
  const auto consider = [&](Strategy strategy) {
    const Program plain = lower_training(model, strategy);
    if (smallest_device_bytes(plain) > budget) return;
    const Program resident = keep_resident(plain, kDeviceLevel, budget);
    const Bytes h2d = moved_bytes(resident, Operation::copy_to_device);
    const Bytes d2h = moved_bytes(resident, Operation::copy_to_host);
    const double seconds = estimated_seconds(rates, step_flops(model, strategy).executed, h2d, d2h);
    const Bytes live = tier_use(resident, Tier::device).live_bytes;
    result.push_back({std::move(strategy), seconds, h2d + d2h, live});
  };
  for (const Order order : orders_to_try(config)) {
    Strategy strategy = base;
    strategy.order = order;
    if (config.train.recompute != Recompute::automatic) {
      consider(strategy);
      continue;
    }
    for (const std::size_t saved : saved_blocks_to_try(model, strategy, budget))
      consider(with_saved_blocks(strategy, saved));
  }
  std::stable_sort(result.begin(), result.end(), [](const Choice& a, const Choice& b) {
    return std::tie(a.seconds, a.traffic, a.live) < std::tie(b.seconds, b.traffic, b.live);
  });
  return result;
}

struct Placement {
  Strategy strategy;
  Program training;
  std::optional<Program> validation = {};
};

/// Gives room that is left to state, from the bottom unit up: its update must be done first in the next step,
/// so it has the least slack to hide a transfer.
std::optional<Placement> place_choice(const Model& model, const Strategy& choice, const RunConfig& config) {
  const Bytes budget = config.memory.device;
  const std::size_t units = model.units.size();
  const bool host_is_used = config.memory.host.has_value();
  std::size_t on_device = units;
  if (host_is_used) {
    on_device =
        largest_that_fits(model, budget, units, [&](std::size_t n) { return with_device_state(choice, n); });
  }
  // Fragmentation may leave a little less room than live bytes promise.
  for (;; --on_device) {
    Strategy strategy = with_device_state(choice, on_device);
    if (std::optional<Program> program = fit(lower_training(model, strategy), kDeviceLevel, budget)) {
      return Placement{std::move(strategy), std::move(*program)};
    }
    if (on_device == 0 || !host_is_used) return std::nullopt;
  }
}

/// The least device memory that any allowed order runs in.
Bytes smallest_budget(const Model& model, Strategy strategy, const RunConfig& config) {
  const bool host_is_used = config.memory.host.has_value();
  strategy = with_device_state(std::move(strategy), host_is_used ? 0 : model.units.size());
  Bytes smallest = kUnlimited;
  for (const Order order : orders_to_try(config)) {
    strategy.order = order;
    const Program plain = lower_training(model, strategy);
    const Program program = host_is_used ? plain : keep_resident(plain, kDeviceLevel, kUnlimited);
    smallest = std::min(smallest, tier_use(place(program), Tier::device).peak_bytes);
  }
  return smallest;
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

/// Moves to the nvme tier what the host has no room for, from the front of `order`: as little as leaves room for three of the largest
/// visit, so that one unit is read and another written while a third is updated, or for one visit where there is no more.
std::optional<Program> fit_host(const Program& program, const SpillOrder& order, Bytes budget) {
  for (const Bytes visits : {3, 1}) {
    const auto has_room = [&](std::size_t count) {
      const NearBytes need = near_bytes(with_spilled(program, order, count), kHostLevel);
      return need.smallest + (visits - 1) * need.largest_visit <= budget;
    };
    std::size_t low = order.forced, high = order.buffers.size() + 1;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      const bool enough = middle > order.buffers.size() || has_room(middle);
      (enough ? high : low) = enough ? middle : middle + 1;
    }
    // Fragmentation may need a little more than live bytes promise.
    for (std::size_t count = low; count <= order.buffers.size(); ++count) {
      if (auto fitted = fit(with_spilled(program, order, count), kHostLevel, budget)) return fitted;
    }
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

/// What the host has no room for goes to the nvme tier; false where even that is not enough.
bool spill_to_nvme(Placement& placement, const RunConfig& config) {
  const SpillOrder order = find_spill_order(placement.training, config.memory);
  if (fits_host(placement, config) && order.forced == 0) return true;
  std::optional<Program> training = fit_host(placement.training, order, *config.memory.host);
  if (!training) return false;
  if (placement.validation) {
    std::optional<Program> validation = fit_host(
        *placement.validation, validation_order(*placement.validation, *training, config), *config.memory.host);
    if (!validation) return false;
    placement.validation = std::move(validation);
  }
  placement.training = std::move(*training);
  return true;
}

/// The least host memory that a placement runs in.
Bytes smallest_host_bytes(const Placement& placement, const RunConfig& config) {
  if (config.memory.nvme_path.empty()) {
    const Bytes training = tier_use(placement.training, Tier::host).peak_bytes;
    return placement.validation ? std::max(training, tier_use(*placement.validation, Tier::host).peak_bytes)
                                : training;
  }
  const SpillOrder order = find_spill_order(placement.training, config.memory);
  const Program staged = place(with_spilled(placement.training, order, order.buffers.size()));
  return tier_use(staged, Tier::host).peak_bytes;
}

Bytes nvme_bytes(const Placement& placement) {
  const Bytes training = tier_use(placement.training, Tier::nvme).peak_bytes;
  return placement.validation ? std::max(training, tier_use(*placement.validation, Tier::nvme).peak_bytes)
                              : training;
}

ConfigError host_error(const RunConfig& config, Bytes need) {
  if (!config.memory.host) {
    return ConfigError(fmt::format(
        "memory.device: {} does not hold the whole run, and no other tier is given; add memory.host: {}",
        format_bytes(config.memory.device), format_bytes(need)));
  }
  return ConfigError(fmt::format(
      "memory.host: {} is too small: with memory.device {} this run {} {} ({} bytes) on the host; give memory.host at least that, or "
      "memory.device more{}",
      format_bytes(*config.memory.host), format_bytes(config.memory.device),
      config.memory.nvme_path.empty() ? "keeps" : "needs, with all else on the nvme tier,", format_bytes(need), need,
      config.memory.nvme_path.empty() ? ", or add memory.nvme" : ""));
}

PlannedProgram finish(Program placed, const Plan& plan) {
  PlannedProgram result;
  // What the host holds beyond its budget are messages of a run without a host tier.
  verify(placed, {plan.budget(Tier::device), kUnlimited, plan.budget(Tier::nvme)});
  result.dependencies = find_dependencies(placed);
  for (const Tier tier : kTiers) result.use[static_cast<std::size_t>(tier)] = tier_use(placed, tier);
  result.step_traffic = traffic_of(placed, When::every_step);
  result.save_traffic = traffic_of(placed, When::saving);
  result.program = std::move(placed);
  return result;
}

}  // namespace

Bytes Plan::arena_bytes(Tier tier) const {
  const auto peak = [&](const PlannedProgram& program) { return program.of(tier).peak_bytes; };
  return validation ? std::max(peak(training), peak(*validation)) : peak(training);
}

Plan make_plan(const RunConfig& config, const Model& model) {
  Plan plan;
  const bool nvme_is_used = !config.memory.nvme_path.empty();
  plan.budgets = {config.memory.device, config.memory.host.value_or(kUnlimited),
                  nvme_is_used ? config.memory.nvme_size : 0};
  // Without a host tier all state must be on the device, and room for it is what choices compete for.
  const Strategy base =
      with_device_state(make_strategy(config, model), config.memory.host ? 0 : model.units.size());
  std::optional<Placement> best;
  double best_seconds = 0;
  Bytes host_need = kUnlimited, nvme_need = kUnlimited;
  for (const Choice& choice : choices(model, base, config)) {
    if (best && choice.seconds >= best_seconds) break;  // drives can only add to it
    std::optional<Placement> placement = place_choice(model, choice.strategy, config);
    if (!placement) continue;
    placement->validation = place_validation(model, placement->strategy, config);
    const bool fits = nvme_is_used ? spill_to_nvme(*placement, config) : fits_host(*placement, config);
    if (!fits) {
      host_need = std::min(host_need, smallest_host_bytes(*placement, config));
      continue;
    }
    nvme_need = std::min(nvme_need, nvme_bytes(*placement));
    if (nvme_bytes(*placement) > plan.budget(Tier::nvme)) continue;
    const double seconds = std::max(choice.seconds, nvme_seconds(planning_rates(config), moved_bytes(placement->training, Operation::read),
                                                                 moved_bytes(placement->training, Operation::write)));
    if (best && seconds >= best_seconds) continue;
    best = std::move(placement);
    best_seconds = seconds;
  }
  if (!best && nvme_need != kUnlimited) {
    throw ConfigError(fmt::format("memory.nvme.size: {} is too small: this run keeps {} ({} bytes) there",
                                  format_bytes(config.memory.nvme_size), format_bytes(nvme_need), nvme_need));
  }
  if (!best && host_need != kUnlimited) throw host_error(config, host_need);
  if (!best) {
    const Bytes smallest = smallest_budget(model, base, config);
    throw ConfigError(
        fmt::format("memory.device: {} is too small for this run; the smallest that works is {} ({} bytes){}",
                    format_bytes(config.memory.device), format_bytes(smallest), smallest,
                    config.memory.host ? "" : "; with memory.host given it would be less"));
  }
  plan.strategy = std::move(best->strategy);
  plan.training = finish(std::move(best->training), plan);
  if (best->validation) plan.validation = finish(std::move(*best->validation), plan);
  plan.flops = step_flops(model, plan.strategy);
  plan.parameters = model.parameters();
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (plan.strategy.state[u] == Tier::host) plan.host_parameters += model.units[u].elements;
  }
  plan.tokens_per_step = plan.strategy.microbatches * plan.strategy.microbatch.tokens();
  return plan;
}

}  // namespace strata
