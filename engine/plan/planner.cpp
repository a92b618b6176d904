#include "engine/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "engine/base/error.h"
#include "engine/plan/lower.h"
#include "engine/plan/placement.h"
#include "engine/plan/residency.h"

namespace strata {
namespace {

/// Blocks are saved from the top: their activations live shortest.
Strategy with_saved_blocks(Strategy strategy, std::size_t blocks) {
  const std::size_t head = strategy.save.size() - 1;
  for (std::size_t u = 1; u < head; ++u) strategy.save[u] = u >= head - blocks;
  return strategy;
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

/// To other ranks: taken to go over a link like that to the device.
Bytes sent_bytes(const Program& program) {
  const Traffic traffic = traffic_of(program, When::every_step);
  return traffic[Link::all_gather] + traffic[Link::reduce_scatter] + traffic[Link::all_reduce];
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
  const auto spills = [&](std::size_t saved) {
    return !nothing_spills(lower_training(model, with_saved_blocks(strategy, saved)), budget);
  };
  const std::size_t fitting = first_number(1, blocks + 1, spills) - 1;
  std::vector<std::size_t> counts = {0, fitting, blocks};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// All that the run file leaves open, the cheapest first; of equally cheap ones the smallest.
std::vector<Choice> choices(const Model& model, const Strategy& base, const RunConfig& config,
                            const MachineRates& rates) {
  const Bytes budget = config.memory.device;
  std::vector<Choice> result;
  const auto cost = [&](const Strategy& strategy) -> std::optional<Choice> {
    const Program plain = lower_training(model, strategy);
    if (near_bytes(plain, kDeviceLevel).smallest > budget) return std::nullopt;
    const Program resident = keep_resident(plain, kDeviceLevel, budget);
    const Bytes h2d = moved_bytes(resident, Operation::copy_to_device);
    const Bytes d2h = moved_bytes(resident, Operation::copy_to_host);
    const Bytes sent = sent_bytes(resident);
    const double seconds = estimated_seconds(rates, step_flops(model, strategy).executed, h2d + sent, d2h);
    const Bytes live = tier_use(resident, Tier::device).live_bytes;
    return Choice{strategy, seconds, h2d + d2h + sent, live};
  };
  const auto consider = [&](Strategy strategy) {
    for (const bool delays : {true, false}) {
      if (delays && strategy.mesh.data() == 1) continue;
      strategy.delays_reduction = delays;
      if (std::optional<Choice> choice = cost(strategy)) result.push_back(std::move(*choice));
    }
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
    // Exchanges that are delayed hide behind computing, where no gradient has to leave the device for it.
    return std::tuple(a.seconds, a.traffic, !a.strategy.delays_reduction, a.live) <
           std::tuple(b.seconds, b.traffic, !b.strategy.delays_reduction, b.live);
  });
  return result;
}

/// The least device memory that any allowed order runs in.
Bytes smallest_budget(const Model& model, Strategy strategy, const RunConfig& config) {
  const bool host_is_used = config.memory.host.has_value();
  strategy = with_device_state(std::move(strategy), all_state_on_device(config) ? model.units.size() : 0);
  Bytes smallest = kUnlimited;
  for (const Order order : orders_to_try(config)) {
    strategy.order = order;
    const Program plain = lower_training(model, strategy);
    const Program program = host_is_used ? plain : keep_resident(plain, kDeviceLevel, kUnlimited);
    smallest = std::min(smallest, tier_use(place(program), Tier::device).peak_bytes);
  }
  return smallest;
}

ConfigError host_error(const RunConfig& config, Bytes need) {
  if (!config.memory.host) {
    return ConfigError(fmt::format(
        "memory.device: {} does not hold the whole run, and no other tier is given; add memory.host: {}",
        format_bytes(config.memory.device), format_bytes(need)));
  }
  return ConfigError(
      fmt::format("memory.host: {} is too small: with memory.device {} this run {} {} ({} bytes) on the "
                  "host; give memory.host at least that, or "
                  "memory.device more{}",
                  format_bytes(*config.memory.host), format_bytes(config.memory.device),
                  config.memory.nvme_path.empty() ? "keeps" : "needs, with all else on the nvme tier,",
                  format_bytes(need), need, config.memory.nvme_path.empty() ? ", or add memory.nvme" : ""));
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
  return make_plan(config, model, planning_rates(config));
}

Plan make_plan(const RunConfig& config, const Model& model, const MachineRates& rates) {
  Plan plan;
  const bool nvme_is_used = !config.memory.nvme_path.empty();
  plan.budgets = {config.memory.device, config.memory.host.value_or(kUnlimited),
                  nvme_is_used ? config.memory.nvme_size : 0};
  // Where all state must be on the device, room for it is what choices compete for.
  const Strategy base =
      with_device_state(make_strategy(config, model), all_state_on_device(config) ? model.units.size() : 0);
  std::optional<Placement> best;
  double best_seconds = 0;
  Shortage shortage;
  for (const Choice& choice : choices(model, base, config, rates)) {
    if (best && choice.seconds >= best_seconds) break;  // placing it can only add to it
    std::optional<Placement> placement = find_placement(model, choice.strategy, config, shortage);
    if (!placement) continue;
    const auto moved = [&](Operation transfer) { return moved_bytes(placement->training, transfer); };
    const double seconds =
        std::max({choice.seconds,
                  estimated_seconds(rates, step_flops(model, choice.strategy).executed,
                                    moved(Operation::copy_to_device) + sent_bytes(placement->training),
                                    moved(Operation::copy_to_host)),
                  nvme_seconds(rates, moved(Operation::read), moved(Operation::write))});
    if (best && seconds >= best_seconds) continue;
    best = std::move(placement);
    best_seconds = seconds;
  }
  if (!best && shortage.nvme != kUnlimited) {
    throw ConfigError(fmt::format("memory.nvme.size: {} is too small: this run keeps {} ({} bytes) there",
                                  format_bytes(config.memory.nvme_size), format_bytes(shortage.nvme),
                                  shortage.nvme));
  }
  if (!best && shortage.host != kUnlimited) throw host_error(config, shortage.host);
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
    const std::int64_t updated = plan.strategy.mesh.shard_elements(model.units[u].elements);
    plan.updated_parameters += updated;
    if (plan.strategy.state[u] == Tier::host) plan.host_parameters += updated;
  }
  plan.tokens_per_step =
      plan.strategy.mesh.data() * plan.strategy.microbatches * plan.strategy.microbatch.tokens();
  return plan;
}

}  // namespace strata
