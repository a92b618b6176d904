#include "engine/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/plan/lower.h"
#include "engine/plan/prefetch.h"
#include "engine/plan/residency.h"

namespace strata {
namespace {

using LowerFunction = Program (*)(const Model&, const Strategy&);

Bytes traffic(const Program& program) {
  return copied_bytes(program, Operation::copy_to_device) + copied_bytes(program, Operation::copy_to_host);
}

/// The fast form of a plain program within `budget`; nothing where even the plain form is larger.
/// Fragmentation can push a placement over what live bytes promise: then passes get that much less to fill.
std::optional<Program> fit(const Program& plain, Bytes budget) {
  const Bytes smallest = smallest_device_bytes(plain);
  if (budget < smallest) return std::nullopt;
  for (Bytes allowed = budget; allowed > smallest;) {
    const Program resident = keep_resident(plain, allowed);
    for (Bytes filled = allowed;;) {
      Program placed = place(prefetch(resident, filled));
      const Bytes over = tier_use(placed, Tier::device).peak_bytes - budget;
      if (over <= 0) return placed;
      if (filled <= smallest) break;
      filled = std::max(smallest, filled - std::max(over, filled / 64));
    }
    allowed = std::max(smallest, allowed - allowed / 32);
  }
  Program placed = place(plain);
  if (tier_use(placed, Tier::device).peak_bytes > budget) return std::nullopt;
  return placed;
}

/// Copies that no device memory avoids: parameters updated on the host, gradients on their way there, tokens and losses.
bool nothing_spills(const Program& plain, Bytes budget) {
  if (budget < smallest_device_bytes(plain)) return false;
  return traffic(keep_resident(plain, budget)) == traffic(keep_resident(plain, kUnlimited));
}

Strategy with_device_state(Strategy strategy, std::size_t units) {
  for (std::size_t u = 0; u < strategy.state.size(); ++u) strategy.state[u] = u < units ? Tier::device : Tier::host;
  return strategy;
}

/// Blocks are saved from the top: their activations live shortest.
Strategy with_saved_blocks(Strategy strategy, std::size_t blocks) {
  const std::size_t head = strategy.save.size() - 1;
  for (std::size_t u = 1; u < head; ++u) strategy.save[u] = u >= head - blocks;
  return strategy;
}

/// The largest count in [0, most] that `make` turns into a strategy of which nothing spills. That is monotone, so a binary
/// search finds it.
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

struct Candidate {
  Strategy strategy;
  Program program;
  std::size_t saved_blocks = 0;
};

/// Fills the device in the order of what a byte is worth: a step's parameters and activations at all, then activations that
/// would be recomputed otherwise, then state. State goes there from the bottom unit up: its update must be done first in the
/// next step, so it has the least slack to hide a transfer.
std::optional<Candidate> place_for_order(const Model& model, const Strategy& base, const RunConfig& config) {
  const Bytes budget = config.memory.device;
  const std::size_t units = model.units.size();
  const bool host_is_used = config.memory.host.has_value();
  const auto strategy_of = [&](std::size_t saved, std::size_t on_device) {
    const Strategy strategy = with_device_state(base, on_device);
    return config.train.recompute == Recompute::automatic ? with_saved_blocks(strategy, saved) : strategy;
  };
  const std::size_t must_be_on_device = host_is_used ? 0 : units;
  std::size_t saved = 0;
  if (config.train.recompute == Recompute::automatic) {
    saved = largest_that_fits(model, budget, units - 2, [&](std::size_t n) { return strategy_of(n, must_be_on_device); });
  }
  std::size_t on_device = units;
  if (host_is_used) {
    on_device = largest_that_fits(model, budget, units, [&](std::size_t n) { return strategy_of(saved, n); });
  }
  // Fragmentation may leave a little less room than live bytes promise.
  for (;;) {
    Strategy strategy = strategy_of(saved, on_device);
    if (std::optional<Program> program = fit(lower_training(model, strategy), budget)) {
      return Candidate{std::move(strategy), std::move(*program), saved};
    }
    if (on_device > must_be_on_device) {
      --on_device;
    } else if (saved > 0) {
      --saved;
    } else {
      return std::nullopt;
    }
  }
}

/// Less to compute, then less to move, then less memory.
bool better(const Candidate& a, const Candidate& b) {
  if (a.saved_blocks != b.saved_blocks) return a.saved_blocks > b.saved_blocks;
  const Bytes a_traffic = traffic(a.program), b_traffic = traffic(b.program);
  if (a_traffic != b_traffic) return a_traffic < b_traffic;
  return tier_use(a.program, Tier::device).peak_bytes < tier_use(b.program, Tier::device).peak_bytes;
}

std::vector<Order> orders_to_try(const RunConfig& config) {
  if (config.plan.order) return {*config.plan.order};
  return {Order::layer_major, Order::microbatch_major};
}

/// The least device memory that any allowed order runs in.
Bytes smallest_budget(const Model& model, Strategy strategy, const RunConfig& config) {
  const bool host_is_used = config.memory.host.has_value();
  strategy = with_device_state(std::move(strategy), host_is_used ? 0 : model.units.size());
  Bytes smallest = kUnlimited;
  for (const Order order : orders_to_try(config)) {
    strategy.order = order;
    const Program plain = lower_training(model, strategy);
    const Program program = host_is_used ? plain : keep_resident(plain, kUnlimited);
    smallest = std::min(smallest, tier_use(place(program), Tier::device).peak_bytes);
  }
  return smallest;
}

/// Bytes on the host that are more than messages to and from the device (tokens, losses, norms).
Bytes host_state_bytes(const TierUse& host) {
  return host.live_bytes - host.by_kind[static_cast<std::size_t>(BufferKind::communication)];
}

void check_host(const RunConfig& config, const Plan& plan) {
  const Bytes need = plan.arena_bytes(Tier::host);
  if (!config.memory.host) {
    if (host_state_bytes(plan.training.host) == 0) return;
    throw ConfigError(
        fmt::format("memory.device: {} does not hold the whole run, and no other tier is given; add memory.host: {}",
                    format_bytes(config.memory.device), format_bytes(need)));
  }
  if (need > *config.memory.host) {
    throw ConfigError(fmt::format("memory.host: {} is too small: with memory.device {} this run keeps {} ({} bytes) on the "
                                  "host; give memory.host at least that, or memory.device more",
                                  format_bytes(*config.memory.host), format_bytes(config.memory.device),
                                  format_bytes(need), need));
  }
}

PlannedProgram finish(Program placed, const Plan& plan) {
  PlannedProgram result;
  verify(placed, plan.device_budget, kUnlimited);
  result.dependencies = find_dependencies(placed);
  result.device = tier_use(placed, Tier::device);
  result.host = tier_use(placed, Tier::host);
  result.h2d_bytes = copied_bytes(placed, Operation::copy_to_device);
  result.d2h_bytes = copied_bytes(placed, Operation::copy_to_host);
  result.program = std::move(placed);
  return result;
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

}  // namespace

Bytes Plan::arena_bytes(Tier tier) const {
  const auto peak = [&](const PlannedProgram& program) {
    return (tier == Tier::device ? program.device : program.host).peak_bytes;
  };
  return validation ? std::max(peak(training), peak(*validation)) : peak(training);
}

Plan make_plan(const RunConfig& config, const Model& model) {
  Plan plan;
  plan.device_budget = config.memory.device;
  plan.host_budget = config.memory.host.value_or(kUnlimited);
  const Strategy base = make_strategy(config, model);
  std::optional<Candidate> best;
  for (const Order order : orders_to_try(config)) {
    Strategy strategy = base;
    strategy.order = order;
    std::optional<Candidate> candidate = place_for_order(model, strategy, config);
    if (candidate && (!best || better(*candidate, *best))) best = std::move(candidate);
  }
  if (!best) {
    const Bytes smallest = smallest_budget(model, base, config);
    throw ConfigError(fmt::format("memory.device: {} is too small for this run; the smallest that works is {} ({} bytes){}",
                                  format_bytes(config.memory.device), format_bytes(smallest), smallest,
                                  config.memory.host ? "" : "; with memory.host given it would be less"));
  }
  plan.strategy = std::move(best->strategy);
  plan.training = finish(std::move(best->program), plan);
  if (plan.strategy.validation_microbatches > 0) {
    std::optional<Program> program = fit(lower_validation(model, plan.strategy), plan.device_budget);
    if (!program) throw std::logic_error("a validation pass needs more device memory than a training step");
    plan.validation = finish(std::move(*program), plan);
  }
  check_host(config, plan);
  plan.flops = step_flops(model, plan.strategy);
  plan.parameters = model.parameters();
  plan.tokens_per_step = plan.strategy.microbatches * plan.strategy.microbatch.tokens();
  return plan;
}

}  // namespace strata
