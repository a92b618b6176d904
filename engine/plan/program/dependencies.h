// Dependencies: what each instruction must wait for, from the bytes it touches. Lanes run in program order,
// so for each lane only the latest conflicting instruction matters, and a lane's progress is one counter.
#pragma once

#include <span>

#include "base/enum_array.h"
#include "engine/plan/program/program.h"
#include "engine/plan/program/rounds.h"

namespace strata {

/// Position of an instruction among those of its lane.
struct LanePosition {
  std::int32_t position = -1;  ///< -1: no need to wait
  bool previous_step = false;  ///< the conflicting instruction belongs to the step before
  friend bool operator==(const LanePosition&, const LanePosition&) = default;
};

struct Dependencies {
  EnumArray<Lane, std::vector<std::int32_t>> lanes;  ///< instruction indices of each lane
  std::vector<EnumArray<Lane, LanePosition>> waits;  ///< per instruction, per lane

  /// What the lane save does for a model, of steps that are or are not those before the rounds'. The ends of
  /// checkpoints are left out: they touch no memory and may take the disk longer than several steps.
  struct Saves {
    std::int32_t model = 0;
    bool is_late = false;
    std::vector<std::int32_t> positions = {};  ///< in the lane
  };
  std::vector<Saves> saves;
};

/// Conflicts are read after write, write after read and write after write on bytes of one tier, within a step
/// and with the step before (a program repeats). REQUIRES: the program is placed.
Dependencies find_dependencies(const Program& placed);

/// How many instructions `lane` must have run since the run's first round before one of `round` that waits
/// for `wait` may start; nothing if that is negative.
std::int64_t needed(const Dependencies& dependencies, Lane lane, const LanePosition& wait, std::int64_t round,
                    const Rounds& rounds);

}  // namespace strata
