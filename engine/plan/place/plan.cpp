#include "engine/plan/place/plan.h"

#include <algorithm>

namespace strata {

Bytes PlannedPrograms::arena_bytes(Tier tier) const {
  Bytes bytes = training.use[tier].peak_bytes;
  for (const auto& [interlude, program] : interludes) bytes = std::max(bytes, program.use[tier].peak_bytes);
  return bytes;
}

std::vector<RankProgram> ranks_of(const std::vector<Plan>& plans) {
  std::vector<RankProgram> ranks;
  ranks.reserve(plans.size());
  for (const Plan& plan : plans)
    ranks.push_back({plan.rank, &plan.training().program, &plan.training().dependencies});
  return ranks;
}

}  // namespace strata
