#include "engine/plan/place/tier_fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/memory.h"

namespace strata {
namespace {

/// Places a tier; if that goes beyond a budget, in the order that stays lower. Returns its peak.
Bytes place_tier_within(Program& program, Tier tier, Bytes budget) {
  const Bytes by_size = place_tier(program, tier);
  if (by_size <= budget) return by_size;
  const std::vector<Bytes> places = places_of(program);
  const Bytes by_end = place_tier(program, tier, PlaceOrder::by_end);
  if (by_end < by_size) return by_end;
  put_back(program, places);
  return by_size;
}

/// A resident program with its fetches moved up as far as keeps its place on the near tier within `budget`;
/// nothing if it does not fit even where none is moved.
std::optional<Program> fit_prefetched(const Program& resident, const TierPair& pair, Bytes budget) {
  for (Bytes filled = budget;;) {
    Program placed = prefetch(resident, pair, filled);
    const Bytes over = place_tier_within(placed, pair.near, budget) - budget;
    if (over <= 0) return placed;
    if (filled == 0) return std::nullopt;
    if (filled == budget) {
      Program least = prefetch(resident, pair, 0);
      if (place_tier_within(least, pair.near, budget) > budget) return std::nullopt;
    }
    filled = filled > budget / 2 ? filled - std::max(over, filled / 64) : 0;
  }
}

std::ptrdiff_t gatherings(const Program& program, const TierPair& pair) {
  return std::ranges::count_if(program.instructions,
                               [&](const Instruction& instruction) { return pair.gathers(instruction); });
}

}  // namespace

Bytes peak_of(const Program& placed, Tier tier) {
  return tier_use(placed, tier).peak_bytes;
}

std::optional<Program> fit(Program plain, const TierPair& pair, Bytes budget, double kept_share) {
  Residency residency(plain, pair);
  const Bytes smallest = residency.needs().smallest;
  if (budget < smallest) return std::nullopt;
  if (place_tier(plain, pair.near) > budget) return std::nullopt;
  const std::ptrdiff_t all_gatherings = gatherings(plain, pair);
  const auto most = static_cast<Bytes>(kept_share * static_cast<double>(budget));
  for (Bytes allowed = kept_share < 1 ? std::max(smallest, most) : budget; allowed > smallest / 8;) {
    for (const Bytes with_gathered : {allowed, allowed - allowed / 32, allowed - allowed / 8, Bytes{0}}) {
      const Program resident = residency.run(allowed, with_gathered);
      std::optional<Program> placed = fit_prefetched(resident, pair, budget);
      if (placed) return placed;
      if (gatherings(resident, pair) == all_gatherings) break;
    }
    allowed = allowed > smallest ? std::max(smallest, allowed - allowed / 32) : allowed - allowed / 4;
  }
  return plain;
}

}  // namespace strata
