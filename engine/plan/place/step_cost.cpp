#include "engine/plan/place/step_cost.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/nth.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/traffic.h"

namespace strata {
namespace {

/// The FLOPs that take the device as long as its passes do, if their kernels were measured. If cores compute,
/// all but copies is included, updates too, since cores do one thing at a time wherever state is.
double work(const Program& program, const MachineRates& rates) {
  const bool knows_kernels = !rates.kernels.is_empty();
  double flops = knows_kernels ? 0 : executed_flops(program);
  if (!knows_kernels && !rates.cores_copy) return flops;
  const InstructionCosts costs(program, rates);
  for (const Instruction& instruction : program.instructions) {
    const bool is_counted = instruction.flops > 0 && !knows_kernels;
    const bool computes =
        instruction.lane == Lane::compute || (instruction.lane == Lane::cpu && rates.cores_copy);
    if (computes && !is_counted) flops += costs.seconds_of(instruction) * rates.flops_per_second;
  }
  return flops;
}

/// Exchanges of all groups take turns.
StepCost cost_of(const Program& program, const MachineRates& rates, double flops,
                 const ResidentBytes& moved) {
  const RankLinks links = rates.rank_links();
  double exchanging = 0;
  for (std::size_t group = 0; group < moved.sent_in_group.size(); ++group) {
    if (moved.sent_in_group[group] == 0) continue;
    exchanging +=
        static_cast<double>(moved.sent_in_group[group]) / exchange_rate(links, program.groups[group]);
  }
  return {.seconds = estimated_seconds(rates, flops, moved.fetched, moved.written_back, exchanging),
          .computing = flops / rates.flops_per_second,
          .moved = moved.fetched + moved.written_back + moved.sent(),
          .live = moved.live};
}

std::vector<Bytes> sent_in_groups(const Program& program) {
  std::vector<Bytes> sent(program.groups.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is_of_every_step() && instruction.exchange.group >= 0)
      nth(sent, instruction.exchange.group) += instruction.exchange.sent;
  }
  return sent;
}

/// Bytes that move because the device has no more than a budget.
struct Excess {
  Bytes copied = 0, sent = 0;
};

/// All of them if the budget is too small for the plain program.
Excess find_excess(const Program& plain, Bytes budget) {
  Residency residency(plain, kDevicePair);
  if (budget < residency.needs().smallest) return {kUnlimited, kUnlimited};
  const ResidentBytes now = residency.bytes(budget), least = residency.bytes(kUnlimited);
  return {now.fetched + now.written_back - least.fetched - least.written_back, now.sent() - least.sent()};
}

}  // namespace

std::optional<StepCost> step_cost(const Program& plain, Bytes budget, const MachineRates& rates) {
  Residency residency(plain, kDevicePair);
  if (residency.needs().smallest > budget) return std::nullopt;
  return cost_of(plain, rates, work(plain, rates), residency.bytes(budget));
}

bool is_cheaper(const StepCost& a, const StepCost& b) {
  return std::pair(a.seconds, a.moved) < std::pair(b.seconds, b.moved);
}

StepCost placed_cost(const Program& placed, const MachineRates& rates) {
  const auto moved = [&](Operation transfer) { return moved_bytes(placed, transfer); };
  StepCost cost = cost_of(placed, rates, work(placed, rates),
                          {.fetched = moved(Operation::copy_to_device),
                           .written_back = moved(Operation::copy_to_host),
                           .sent_in_group = sent_in_groups(placed),
                           .live = tier_use(placed, Tier::device).live_bytes});
  cost.seconds = std::max(cost.seconds, nvme_seconds(rates, moved(Operation::read), moved(Operation::write)));
  return cost;
}

LargestNumbers largest_with_room(std::size_t most, Bytes budget,
                                 const std::function<Program(std::size_t)>& plain) {
  std::map<std::size_t, Excess> known;
  const auto most_without = [&](std::size_t limit, Bytes Excess::*moved) {
    const auto moves = [&](std::size_t number) {
      const auto [excess, is_new] = known.try_emplace(number);
      if (is_new) excess->second = find_excess(plain(number), budget);
      return excess->second.*moved > 0;
    };
    return first_number_from_ends(1, limit + 1, moves) - 1;
  };
  LargestNumbers result;
  result.copying_nothing = most_without(most, &Excess::copied);
  result.gathering_nothing = most_without(result.copying_nothing, &Excess::sent);
  return result;
}

}  // namespace strata
