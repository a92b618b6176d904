#include "engine/plan/planner/step_use.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"

namespace strata {
namespace {

void find_kinds(const Program& program, RankUse& use) {
  const auto of = [&](const Buffer& buffer) -> KindUse& { return use.kinds[buffer.kind]; };
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent) of(buffer).stays[buffer.tier] += buffer.bytes;
  }
  for (const Tier tier : kTiers) {
    const TierUse peak = tier_use(program, tier);
    for (const BufferKind kind : kBufferKinds) use.kinds[kind].at_peak[tier] = peak.by_kind[kind];
  }
  for (const Instruction& instruction : program.instructions) {
    if (!is_transfer(instruction.operation) || !instruction.is_of_every_step()) continue;
    const Buffer& buffer = program.buffer(instruction.writes.front().buffer);
    of(buffer).moved[*link_of(instruction.operation)] += buffer.bytes;
  }
}

void find_lanes(const Program& program, const RoundTimeline& round, RankUse& use) {
  for (const Lane lane : kLanes) {
    LaneUse one = {.lane = lane};
    std::map<Operation, double> waited;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const InstructionTime& time = round.instructions[i];
      if (program.instructions[i].lane != lane) continue;
      one.busy += time.end - time.start;
      if (time.awaited >= 0) waited[nth(program.instructions, time.awaited).operation] += time.waited;
    }
    if (one.busy <= 0) continue;
    one.idle = std::max(0.0, round.seconds - one.busy);
    one.waited.assign(waited.begin(), waited.end());
    std::erase_if(one.waited, [](const auto& entry) { return entry.second <= 0; });
    std::ranges::stable_sort(one.waited, std::greater(), &std::pair<Operation, double>::second);
    use.lanes.push_back(std::move(one));
  }
}

}  // namespace

std::vector<RankUse> find_use(const PlannedRun& run, const MachineRates& rates) {
  const std::vector<RoundTimeline> rounds = simulate_round(run.ranks, rates);
  std::vector<RankUse> uses;
  uses.reserve(rounds.size());
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    RankUse& use = uses.emplace_back();
    use.rank = run.ranks[r].rank;
    find_kinds(*run.ranks[r].program, use);
    find_lanes(*run.ranks[r].program, rounds[r], use);
  }
  return uses;
}

SavedUnits count_saved(const ModelPlan& plan, const Model& model) {
  const Strategy& strategy = plan.strategy;
  const std::shared_ptr<const UnitCompute> compute =
      unit_compute(model, strategy.precision, strategy.microbatch);
  SavedUnits units;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (!strategy.has(static_cast<std::int32_t>(u))) continue;
    const std::size_t last = compute->passes(model.units[u]).levels.size() - 1;
    if (last == 0) continue;
    const std::size_t level = std::min(strategy.saved_level[u], last);
    ++(level == 0 ? units.none : level == last ? units.all : units.some);
  }
  return units;
}

}  // namespace strata
