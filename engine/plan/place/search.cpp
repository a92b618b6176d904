#include "engine/plan/place/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "engine/model/model.h"
#include "engine/plan/bound/certificate.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/place/step_cost.h"
#include "engine/plan/place/tier_fit.h"

namespace strata {
namespace {

/// How much of the units' activations is saved, as one number: units are raised from level to level in turn,
/// from the top, since activations of the top live shortest.
class Savings {
 public:
  Savings(const Model& model, const Strategy& strategy) {
    const auto compute = unit_compute(model, strategy.precision, strategy.microbatch);
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      const bool is_here = strategy.has(static_cast<std::int32_t>(u));
      levels_.push_back(is_here ? compute->passes(model.units[u]).levels.size() - 1 : 0);
    }
    for (const std::size_t levels : levels_) {
      most_ += levels;
      units_ += levels > 0 ? 1 : 0;
    }
  }

  std::size_t most() const { return most_; }
  /// Units that can save something.
  std::size_t units() const { return units_; }

  /// `raised` times a unit has been raised by one level.
  Strategy evenly(Strategy strategy, std::size_t raised) const {
    strategy.saved_level.assign(levels_.size(), 0);
    for (std::size_t level = 1; raised > 0; ++level) {
      for (std::size_t u = levels_.size(); u-- > 0 && raised > 0;) {
        if (levels_[u] < level) continue;
        strategy.saved_level[u] = level;
        --raised;
      }
    }
    return strategy;
  }

  /// Levels of the unit that has the most.
  std::size_t levels() const { return *std::ranges::max_element(levels_); }
  /// Every unit at this level, or at its last.
  Strategy all_at(Strategy strategy, std::size_t level) const {
    strategy.saved_level.clear();
    for (const std::size_t last : levels_) strategy.saved_level.push_back(std::min(level, last));
    return strategy;
  }

  /// The `units` top ones save all, the others nothing.
  Strategy whole_units(Strategy strategy, std::size_t units) const {
    strategy.saved_level.assign(levels_.size(), 0);
    for (std::size_t u = levels_.size(); u-- > 0 && units > 0;) {
      if (levels_[u] == 0) continue;
      strategy.saved_level[u] = levels_[u];
      --units;
    }
    return strategy;
  }

 private:
  std::vector<std::size_t> levels_;  ///< by unit: the last
  std::size_t most_ = 0, units_ = 0;
};

/// An order and what is saved, and what they would cost.
struct Choice {
  Strategy strategy;
  StepCost cost;
};

/// Calls consider(strategy) for exchanges under other work, if there are any, and without that: under the
/// next unit's backward pass, and within units under another microbatch's segments. Also with matrices that
/// ranks share out, if some are to be orthogonalized, and without that.
template <typename Consider>
void with_each_exchange(const Model& model, Strategy strategy, const Consider& consider) {
  const bool has_matrices = std::ranges::any_of(
      model.policies, [](const UpdatePolicy& policy) { return orthogonalizes(policy.rule); });
  for (const bool interleaves : {true, false}) {
    if (interleaves && strategy.mesh.tensor == 1) continue;
    for (const bool delays : {true, false}) {
      if (delays && strategy.mesh.holders() == 1) continue;
      for (const bool shares_out : {true, false}) {
        if (shares_out && (!strategy.is_sharded() || !has_matrices)) continue;
        strategy.interleaves = interleaves;
        strategy.delays_reduction = delays;
        strategy.shares_out_matrices = shares_out;
        consider(strategy);
      }
    }
  }
}

/// Instructions that the search places to compare choices by their timelines, and how many choices that are
/// at least and at most: planning stays in proportion to a program.
constexpr std::size_t kPlacedInstructions = 20'000, kLeastPlaced = 1, kMostPlaced = 16;
constexpr double kAny = std::numeric_limits<double>::infinity();
/// A step that takes so much longer than the next choice can is worth another try beyond them.
constexpr double kPoor = 1.3;
/// A step that is not shorter by more than that is not better: it is within the error of rates, and cheaper
/// by other measures comes first.
constexpr double kGain = 0.99;

std::size_t choices_to_place(std::size_t instructions) {
  return std::clamp(kPlacedInstructions / instructions, kLeastPlaced, kMostPlaced);
}

/// How many neighbours of a placed choice are tried: none if the program is too long. Several ranks try
/// fewer, since many layouts are placed for them.
std::size_t tries_of(const Placement& placed) {
  const std::size_t instructions = placed.strategy.mesh.ranks() == 1 ? 40'000 : 10'000;
  constexpr std::size_t kMostTries = 10;
  return std::min(instructions / placed.training.instructions.size(), kMostTries);
}

/// At most `count` numbers above `low` and below `high`, evenly spread.
std::vector<std::size_t> numbers_between(std::size_t low, std::size_t high, std::size_t count) {
  std::vector<std::size_t> numbers;
  if (high <= low + 1) return numbers;
  count = std::min(count, high - low - 1);
  for (std::size_t i = 1; i <= count; ++i) numbers.push_back(low + (high - low) * i / (count + 1));
  return numbers;
}

/// What neither device nor host has room for is written to drives and read in each step.
double least_drive_seconds(const Program& plain, const MemoryRequest& memory, const MachineRates& rates) {
  if (!memory.nvme || !memory.host) return 0;
  const Bytes beyond = std::max<Bytes>(0, bytes_beyond_device(plain, memory.device) - *memory.host);
  return nvme_seconds(rates, beyond, beyond);
}

/// All that the request leaves open, the cheapest first; of equally cheap ones the smallest.
std::vector<Choice> choices(const Model& model, const Strategy& base, const PlanRequest& request,
                            const MachineRates& rates) {
  const MemoryRequest& memory = request.memory;
  const Bytes budget = memory.device;
  std::vector<Choice> result;
  const auto cost_with = [&](const Strategy& strategy) {
    const Program plain = leanest_training(model, strategy, memory);
    std::optional<StepCost> cost = step_cost(plain, budget, rates);
    if (cost) cost->seconds = std::max(cost->seconds, least_drive_seconds(plain, memory, rates));
    return cost;
  };
  // With state where a step is shorter: all on the host, or all on the device, if it has room for that.
  const auto cost_of = [&](const Strategy& strategy) {
    std::optional<StepCost> cost = cost_with(strategy);
    if (!cost || !may_choose_state(memory)) return cost;
    const std::optional<StepCost> near = cost_with(with_device_state(strategy, model.units.size()));
    return near && is_cheaper(*near, *cost) ? near : cost;
  };
  const auto seconds = [&](const Strategy& strategy) {
    const std::optional<StepCost> cost = cost_of(strategy);
    return cost ? cost->seconds : std::numeric_limits<double>::infinity();
  };
  const auto consider = [&](const Strategy& undelayed) {
    with_each_exchange(model, undelayed, [&](const Strategy& strategy) {
      if (const std::optional<StepCost> cost = cost_of(strategy)) result.push_back({strategy, *cost});
    });
  };
  const Savings savings(model, base);
  for (const Order order : request.orders) {
    Strategy strategy = base;
    strategy.order = order;
    if (!request.chooses_saved) {
      consider(strategy);
      continue;
    }
    // Nothing, what fits without anything spilling for it, by whole units or evenly, and all: what does not
    // fit then travels, which can be cheaper than computing it twice. The more is saved beyond what fits, the
    // less is computed and the more travels: if all of that overlaps, a step is shortest where it no longer
    // gets shorter, otherwise somewhere before. What fits beside all that was gathered comes to less, which
    // can be cheaper than gathering it twice.
    consider(savings.evenly(strategy, 0));
    consider(savings.evenly(strategy, savings.most()));
    if (result.empty()) {  // a little saved may need less than nothing or all
      for (std::size_t level = 1; level < savings.levels(); ++level)
        consider(savings.all_at(strategy, level));
    }
    const auto lowered = [&](Strategy (Savings::*saving)(Strategy, std::size_t) const) {
      return [&, saving](std::size_t number) {
        return lower_training(model, (savings.*saving)(strategy, number));
      };
    };
    const auto [whole, whole_gathered] =
        largest_with_room(savings.units(), budget, lowered(&Savings::whole_units));
    const auto [even, even_gathered] = largest_with_room(savings.most(), budget, lowered(&Savings::evenly));
    if (whole_gathered > 0 && whole_gathered < whole) consider(savings.whole_units(strategy, whole_gathered));
    if (even_gathered > 0 && even_gathered < even) consider(savings.evenly(strategy, even_gathered));
    if (even == savings.most()) continue;
    if (whole > 0) consider(savings.whole_units(strategy, whole));
    if (even > 0) consider(savings.evenly(strategy, even));
    const std::size_t best = first_number_from_ends(even, savings.most(), [&](std::size_t raised) {
      return seconds(savings.evenly(strategy, raised + 1)) >= seconds(savings.evenly(strategy, raised));
    });
    if (best > even && best < savings.most()) consider(savings.evenly(strategy, best));
    const std::size_t instructions = lower_training(model, strategy).instructions.size();
    for (const std::size_t number : numbers_between(even, best, choices_to_place(instructions) / 2))
      consider(savings.evenly(strategy, number));
  }
  std::stable_sort(result.begin(), result.end(), [](const Choice& a, const Choice& b) {
    // Exchanges that are delayed hide behind computing, if no gradient has to leave the device for it.
    const auto key = [](const Choice& choice) {
      return std::tuple(choice.cost.seconds, choice.cost.moved, !choice.strategy.interleaves,
                        !choice.strategy.delays_reduction, choice.strategy.shares_out_matrices,
                        choice.cost.live);
    };
    return key(a) < key(b);
  });
  return result;
}

/// If all state must be on the device, room for it is what choices compete for.
Strategy base_strategy(const PlanRequest& request, const Model& model, std::int32_t stage) {
  return with_device_state(request.strategy_of(stage),
                           all_state_on_device(request.memory) ? model.units.size() : 0);
}

}  // namespace

CheapestSearch::CheapestSearch(const PlanRequest& request, const Model& model, const MachineRates& rates,
                               std::int32_t stage)
    : model_(&model), rates_(rates), request_(request), stage_(stage) {
  for (Choice& choice : choices(model, base_strategy(request, model, stage), request, rates))
    candidates_.push_back({choice.cost.seconds, choice.cost.computing,
                           PlacementSearch(model, std::move(choice.strategy), rates)});
}

double CheapestSearch::seconds_of(const Program& placed) const {
  return std::max(placed_cost(placed, rates_).seconds,
                  simulated_seconds(placed, find_dependencies(placed), rates_));
}

std::optional<Placement> CheapestSearch::find(const MemoryRequest& memory, Shortage& shortage) {
  std::optional<TimedPlacement> found = find_timed(memory, shortage, kAny);
  if (!found) return std::nullopt;
  return std::move(found->placement);
}

double CheapestSearch::least_seconds(const MemoryRequest& memory, const Strategy& strategy) const {
  if (strategy.mesh.ranks() > 1) return least_pass_seconds(*model_, strategy, rates_);
  return certify(facts_of(*model_, strategy, rates_), memory.budgets(), rates_).seconds;
}

std::optional<Placement> CheapestSearch::find_with_less(const MemoryRequest& memory, Shortage& shortage) {
  std::optional<TimedPlacement> best = find_timed(memory, shortage, kAny);
  if (!best) return std::nullopt;
  if (request_.effort == SearchEffort::first_placement) return std::move(best->placement);
  PlanRequest less = request_;
  less.memory = memory;
  Bytes& device = less.memory.device;
  // Budgets that hold the plan anyway find it again.
  const Bytes held = std::max<Bytes>(peak_of(best->placement.training, Tier::device), 9);
  while (device >= held) device = smaller(device);
  constexpr std::size_t kMostSmaller = 3;
  std::size_t tries = std::min(tries_of(best->placement), kMostSmaller);
  for (; tries > 0; --tries, device = smaller(device)) {
    if (least_seconds(less.memory, best->placement.strategy) >= kGain * best->seconds) break;
    CheapestSearch search(less, *model_, rates_, stage_);
    if (search.candidates_.empty()) break;
    Shortage unused;
    std::optional<TimedPlacement> found = search.find_timed(less.memory, unused, best->seconds);
    if (found && found->seconds < best->seconds) best = std::move(found);
  }
  return std::move(best->placement);
}

std::optional<TimedPlacement> CheapestSearch::find_timed(const MemoryRequest& memory, Shortage& shortage,
                                                         double longest) {
  const auto seconds = [&](const Program& program) { return seconds_of(program); };
  std::map<Order, TimedPlacement> found_of;
  TimedPlacement* best = nullptr;  // of these
  std::size_t placed = 0;
  for (Candidate& candidate : candidates_) {
    if (candidate.seconds >= longest) break;  // they are in the order of their seconds
    if (best && candidate.computing >= kGain * best->seconds) continue;  // placing it can only add to it
    if (best && placed >= choices_to_place(best->placement.training.instructions.size()) &&
        best->seconds <= kPoor * candidate.seconds)
      break;
    std::optional<Placement> placement = candidate.places.find(memory, shortage);
    if (!placement) continue;
    ++placed;
    TimedPlacement found = {std::move(*placement), 0};
    if (request_.effort == SearchEffort::first_placement) return found;
    found.seconds = seconds_of(found.placement.training);
    const auto try_more = [&](PlacementSearch& places) {
      std::optional<TimedPlacement> more =
          places.with_more_state(found.placement, memory, seconds, tries_of(found.placement));
      if (more && more->seconds < kGain * found.seconds) found = std::move(*more);
    };
    try_more(candidate.places);
    std::optional<PlacementSearch> others = candidate.places.above_first();
    if (others && found.placement.strategy.mesh.ranks() == 1) try_more(*others);
    const Order order = found.placement.strategy.order;
    const bool is_best = !best || found.seconds < kGain * best->seconds;
    const auto known = found_of.find(order);
    if (!is_best && known != found_of.end() && found.seconds >= kGain * known->second.seconds) continue;
    TimedPlacement& kept = found_of.insert_or_assign(order, std::move(found)).first->second;
    if (is_best) best = &kept;
  }
  if (!best) return std::nullopt;
  if (request_.chooses_saved) {
    // Orders that are close to one another before may not be with other numbers.
    const double longest = kPoor * best->seconds;
    save_other_numbers(*best, memory);
    for (auto& [order, found] : found_of) {
      if (&found == best || found.seconds > longest) continue;
      save_other_numbers(found, memory);
      if (found.seconds < kGain * best->seconds) best = &found;
    }
  }
  return std::move(*best);
}

void CheapestSearch::save_other_numbers(TimedPlacement& best, const MemoryRequest& memory) const {
  Strategy strategy = best.placement.strategy;
  strategy.updates_late = false;  // placing decides about that
  const Savings savings(*model_, strategy);
  const auto on_device = static_cast<std::size_t>(std::ranges::count(strategy.state, Tier::device));
  const std::size_t first_unit = on_device > 0 && strategy.state.front() != Tier::device ? 1 : 0;
  const auto place = [&](std::size_t number) {
    PlacementSearch places(*model_, savings.evenly(strategy, number), rates_, first_unit);
    return places.find_with(on_device, memory);
  };
  std::optional<TimedPlacement> other =
      shortest_by_thirds(0, savings.most(), tries_of(best.placement), place,
                         [&](const Program& program) { return seconds_of(program); });
  if (other && other->seconds < kGain * best.seconds) best = std::move(*other);
}

namespace {

Bytes smallest_of_stage(const PlanRequest& request, const Model& model, std::int32_t stage) {
  Bytes smallest = kUnlimited;
  const auto consider = [&](const Strategy& undelayed) {
    with_each_exchange(model, undelayed, [&](const Strategy& strategy) {
      smallest = std::min(smallest, smallest_device_bytes(model, strategy, request.memory));
    });
  };
  Strategy strategy = base_strategy(request, model, stage);
  const Savings savings(model, strategy);
  for (const Order order : request.orders) {
    strategy.order = order;
    consider(strategy);
    if (!request.chooses_saved) continue;
    for (std::size_t level = 1; level <= savings.levels(); ++level) consider(savings.all_at(strategy, level));
  }
  return smallest;
}

}  // namespace

Bytes smallest_device_bytes(const PlanRequest& request, const Model& model) {
  Bytes smallest = 0;
  for (std::int32_t stage = 0; stage < request.stages(); ++stage)
    smallest = std::max(smallest, smallest_of_stage(request, model, stage));
  return smallest;
}

}  // namespace strata
