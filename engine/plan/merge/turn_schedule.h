// Turns of several models on all ranks at once: which model's turn it is, from turn to turn, for each stage
// set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/merge/joint_turns.h"
#include "engine/plan/merge/stage_sets.h"

namespace strata {

/// What a model has to do in a round. One without turns takes no part.
struct ModelTurns {
  std::vector<JointTurn> turns;
  std::int64_t remaining_steps = 1;  ///< of the run
};

/// A turn sequence, as each stage set has it.
struct TurnSchedule {
  std::string name;
  std::vector<std::vector<std::int32_t>> models;  ///< by stage set: whose turn it is
  std::vector<std::size_t> begins;  ///< by model: the turn that rounds begin with, as of a TurnSequence
};

/// The orders of turn_sequences(). If there are several stage sets, the bubbles of each order are filled:
/// while a rank waits for another in one model, it takes the first turn of other models that can be done.
/// Step after step is there without that, too, for comparison. Every order has a turn on all of its stage
/// sets at once. So ranks that do one thing at a time never wait in a circle.
std::vector<TurnSchedule> turn_schedules(const std::vector<ModelTurns>& models,
                                         std::span<const StageSet> stage_sets);

}  // namespace strata
