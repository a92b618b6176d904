// The placed programs of all stage sets together: whether ranks that run them meet, and how long a round
// takes.
#pragma once

#include <span>
#include <vector>

#include "engine/plan/merge/stage_sets.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/program/rank_tasks.h"

namespace strata {

class JointRound {
 public:
  /// REQUIRES: the placements, one of each stage set, outlive this.
  JointRound(std::span<const StageSet> stage_sets, std::span<const Placement> placements);

  /// Whether all ranks come to what they do together, in training and between steps.
  bool meets() const;
  /// From one round of training to the next. REQUIRES: they meet.
  double seconds(const MachineRates& rates) const;

 private:
  struct Programs {
    std::vector<RankProgram> of_roles;
    std::vector<Dependencies> dependencies;

    void add(std::int64_t rank, const Program& program);
    std::vector<RankProgram> ranks() const;
    bool meets() const;
  };
  Programs training_;
  OfInterludes<Programs> interludes_;
};

}  // namespace strata
