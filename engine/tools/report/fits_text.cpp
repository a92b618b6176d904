#include "engine/tools/report/fits_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/counts.h"

namespace strata {
namespace {

/// Whole tokens, or two digits of a slow run.
std::string rate_text(double tokens_per_second) {
  return tokens_per_second < 10 ? fmt::format("{:.2g}", tokens_per_second)
                                : grouped(std::llround(tokens_per_second));
}

}  // namespace

std::vector<TierPlan> fullest_tiers(const std::vector<Plan>& plans) {
  std::vector<TierPlan> tiers;
  for (const Tier tier : used_tiers(plans.front().budgets)) {
    TierPlan fullest = tier_plan(plans.front(), tier);
    for (const Plan& plan : plans) {
      const TierPlan of_plan = tier_plan(plan, tier);
      if (of_plan.peak_bytes > fullest.peak_bytes) fullest = of_plan;
    }
    if (fullest.peak_bytes > 0) tiers.push_back(fullest);
  }
  return tiers;
}

std::string fits_text(const std::vector<TierPlan>& tiers, double tokens_per_second, bool of_several) {
  std::string memory;
  for (const TierPlan& tier : tiers) {
    memory += fmt::format(
        "{}{} {}{}", memory.empty() ? "" : ", ", name_of(tier.tier), format_bytes(tier.peak_bytes),
        tier.budget == kUnlimited ? " without a limit" : " of " + format_bytes(tier.budget));
  }
  return fmt::format("fits     {}{}; at most {} tokens/s\n", of_several ? "each rank takes " : "", memory,
                     rate_text(tokens_per_second));
}

}  // namespace strata
