#include "engine/run/execute/plan_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata {

Bytes planned_bytes(const Plan& plan, const TrainResult& result, Link link) {
  const auto starts = std::ranges::count_if(result.steps, &StepReport::begins);
  return std::ssize(result.steps) * plan.training().moved(link) +
         result.saves * plan.training().moved_by_save(link) + starts * plan.training().moved_by_start(link);
}

std::vector<std::string> differences_from_plan(const Plan& plan, const TrainResult& result) {
  const MeterCount& count = result.measured.count;
  std::vector<std::string> differences;
  const bool all_was_touched =
      !result.steps.empty() && !result.interrupted && (result.saves > 0 || !plan.only().strategy.saves);
  for (const Tier tier : kTiers) {
    const Bytes planned = plan.arena_bytes(tier);
    const Bytes measured = count.peak_bytes[tier];
    if (measured > planned || (all_was_touched && measured < planned))
      differences.push_back(fmt::format("{} memory: a peak of {} bytes is planned, and {} were touched",
                                        name_of(tier), planned, measured));
  }
  if (count.outside_bytes > 0)
    differences.push_back(
        fmt::format("{} bytes of memory were touched that are in no tier", count.outside_bytes));
  if (const Bytes planned = total(result.scratch.planned); result.scratch.measured_bytes > planned)
    differences.push_back(fmt::format("scratch: {} bytes are planned, and kernels hold {}", planned,
                                      result.scratch.measured_bytes));
  for (const Link link : kLinks) {
    const Bytes planned = planned_bytes(plan, result, link), measured = count.traffic[link];
    if (measured == planned || result.interrupted) continue;
    differences.push_back(
        fmt::format("{}: {} bytes are planned, and {} were moved", name_of(link), planned, measured));
  }
  return differences;
}

}  // namespace strata
