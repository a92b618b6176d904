// What a planned step does with memory and lanes, in figures: what of each kind lives on each tier and
// travels, and how long each lane works and waits for what. Pure functions of a placed program and its
// timeline.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/traffic.h"

namespace strata {

/// Bytes of one kind of buffers.
struct KindUse {
  EnumArray<Tier, Bytes> stays = {};    ///< from step to step
  EnumArray<Tier, Bytes> at_peak = {};  ///< at the tier's peak
  Traffic moved;                        ///< in a step that saves nothing
};

struct LaneUse {
  Lane lane = Lane::compute;
  double busy = 0;  ///< seconds of a step
  double idle = 0;  ///< the rest of it
  /// Seconds that it waited, by what for, the longest first; as far as it waited for its own rank.
  std::vector<std::pair<Operation, double>> waited = {};
};

struct RankUse {
  std::int64_t rank = 0;
  EnumArray<BufferKind, KindUse> kinds = {};
  std::vector<LaneUse> lanes = {};  ///< those that have work
};

/// Sums up each rank that does what others do not.
std::vector<RankUse> find_use(const PlannedRun& run, const MachineRates& rates);

/// Units by how much of their activations is saved from the forward to the backward pass.
struct SavedUnits {
  std::int64_t none = 0, some = 0, all = 0;
};
/// Counts those units of the plan's stage that could save something.
SavedUnits count_saved(const ModelPlan& plan, const Model& model);

}  // namespace strata
