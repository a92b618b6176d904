#include "engine/plan/merge/joint_round.h"

#include <algorithm>
#include <stdexcept>

#include "engine/plan/cost/timeline.h"

namespace strata {

JointRound::JointRound(std::span<const StageSet> stage_sets, std::span<const Placement> placements) {
  for (std::size_t stage_set = 0; stage_set < stage_sets.size(); ++stage_set) {
    training_.add(stage_sets[stage_set].rank, placements[stage_set].training);
    for (const auto& [interlude, program] : placements[stage_set].interludes)
      interludes_[interlude].add(stage_sets[stage_set].rank, program);
  }
}

void JointRound::Programs::add(std::int64_t rank, const Program& program) {
  of_roles.push_back({rank, &program, nullptr});
  dependencies.push_back(find_dependencies(program));
}

std::vector<RankProgram> JointRound::Programs::ranks() const {
  std::vector<RankProgram> ranks = of_roles;
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].dependencies = &dependencies[r];
  return ranks;
}

bool JointRound::Programs::meets() const {
  if (of_roles.size() <= 1) return true;
  try {
    verify_ranks(ranks());
  } catch (const std::logic_error&) {
    return false;
  }
  return true;
}

bool JointRound::meets() const {
  return training_.meets() &&
         std::ranges::all_of(interludes_, [](const auto& interlude) { return interlude.second.meets(); });
}

double JointRound::seconds(const MachineRates& rates) const {
  return simulated_seconds(training_.ranks(), rates);
}

}  // namespace strata
