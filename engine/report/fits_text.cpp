#include "engine/report/fits_text.h"

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
