// The turns of a model on all of its stages. Stages that meet in a turn take it together. So all turns of a
// run have one order, and each rank has its part of that order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/program/program.h"

namespace strata {

struct RankProgram;

struct JointTurn {
  struct OfStage {
    std::int32_t turns = 0;  ///< of find_turns(), one behind another; 0: the stage takes no part
    double seconds = 0;      ///< that they compute
    std::vector<std::int32_t> after = {};  ///< joint turns of the list that made what they use
  };
  std::vector<OfStage> stages;
  /// Unit and operation of the last of its passes, if it has one.
  std::optional<std::pair<std::int32_t, Operation>> pass = {};

  bool is_of_one_stage() const;
  /// The mean over stages.
  double seconds() const;
};

/// By the model's plain programs, one for each stage, with its rank. They can be done one at a time in the
/// list's order, each on all of its stages at once. A turn has no more stages and turns than meet in it, by a
/// chain of others if need be.
std::vector<JointTurn> joint_turns(std::span<const RankProgram> stages, const MachineRates& rates);

}  // namespace strata
