#include "engine/plan/search/search.h"

#include <algorithm>
#include <tuple>

#include "engine/plan/lower/lower.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/traffic.h"

namespace strata {
namespace {

/// Blocks are saved from the top: their activations live shortest.
Strategy with_saved_blocks(Strategy strategy, std::size_t blocks) {
  const std::size_t head = strategy.save.size() - 1;
  for (std::size_t u = 1; u < head; ++u) strategy.save[u] = u >= head - blocks;
  return strategy;
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
  const std::size_t fitting = first_number_from_ends(1, blocks + 1, spills) - 1;
  std::vector<std::size_t> counts = {0, fitting, blocks};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// Calls consider(strategy) for exchanges under the next unit's backward pass, if there are any, and
/// without that.
template <typename Consider>
void with_and_without_delay(Strategy strategy, const Consider& consider) {
  for (const bool delays : {true, false}) {
    if (delays && strategy.mesh.data() == 1) continue;
    strategy.delays_reduction = delays;
    consider(strategy);
  }
}

/// All that the run file leaves open, the cheapest first; of equally cheap ones the smallest.
std::vector<Choice> choices(const Model& model, const Strategy& base, const RunConfig& config,
                            const MachineRates& rates) {
  const Bytes budget = config.memory.device;
  std::vector<Choice> result;
  const auto cost = [&](const Strategy& strategy) -> std::optional<Choice> {
    const Program plain = leanest_training(model, strategy, config);
    Residency residency(plain, kDeviceLevel);
    if (residency.needs().smallest > budget) return std::nullopt;
    const ResidentBytes moved = residency.bytes(budget);
    const Bytes h2d = moved.fetched, d2h = moved.written_back;
    const Bytes sent = sent_bytes(plain);
    const double seconds = estimated_seconds(rates, executed_flops(plain), h2d + sent, d2h);
    return Choice{strategy, seconds, h2d + d2h + sent, moved.live};
  };
  const auto consider = [&](const Strategy& undelayed) {
    with_and_without_delay(undelayed, [&](const Strategy& strategy) {
      if (std::optional<Choice> choice = cost(strategy)) result.push_back(std::move(*choice));
    });
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
    // Exchanges that are delayed hide behind computing, if no gradient has to leave the device for it.
    return std::tuple(a.seconds, a.traffic, !a.strategy.delays_reduction, a.live) <
           std::tuple(b.seconds, b.traffic, !b.strategy.delays_reduction, b.live);
  });
  return result;
}

/// If all state must be on the device, room for it is what choices compete for.
Strategy base_strategy(const RunConfig& config, const Model& model) {
  return with_device_state(make_strategy(config, model),
                           all_state_on_device(config) ? model.units.size() : 0);
}

}  // namespace

std::optional<Placement> find_cheapest(const RunConfig& config, const Model& model, const MachineRates& rates,
                                       Shortage& shortage) {
  std::optional<Placement> best;
  double best_seconds = 0;
  for (const Choice& choice : choices(model, base_strategy(config, model), config, rates)) {
    if (best && choice.seconds >= best_seconds) break;  // placing it can only add to it
    std::optional<Placement> placement = find_placement(model, choice.strategy, config, shortage);
    if (!placement) continue;
    const auto moved = [&](Operation transfer) { return moved_bytes(placement->training, transfer); };
    const double seconds =
        std::max({choice.seconds,
                  estimated_seconds(rates, executed_flops(placement->training),
                                    moved(Operation::copy_to_device) + sent_bytes(placement->training),
                                    moved(Operation::copy_to_host)),
                  nvme_seconds(rates, moved(Operation::read), moved(Operation::write))});
    if (best && seconds >= best_seconds) continue;
    best = std::move(placement);
    best_seconds = seconds;
  }
  return best;
}

Bytes smallest_device_bytes(const RunConfig& config, const Model& model) {
  Bytes smallest = kUnlimited;
  const auto consider = [&](const Strategy& undelayed) {
    with_and_without_delay(undelayed, [&](const Strategy& strategy) {
      smallest = std::min(smallest, smallest_device_bytes(model, strategy, config));
    });
  };
  Strategy strategy = base_strategy(config, model);
  for (const Order order : orders_to_try(config)) {
    strategy.order = order;
    consider(strategy);
    if (config.train.recompute == Recompute::automatic)
      consider(with_saved_blocks(strategy, model.units.size() - 2));
  }
  return smallest;
}

}  // namespace strata
