// What a planned step does with memory and lanes, in figures: what of each kind lives on each tier and
// travels, and how long each lane works and waits for what. Pure functions of a placed program and its
// timeline.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/plan/program/memory.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/traffic.h"
#include "engine/plan/search/planned_run.h"
#include "engine/plan/search/rates.h"

namespace strata {

/// Bytes of one kind of buffers.
struct KindUse {
  std::array<Bytes, kTiers.size()> stays = {};    ///< by tier, from step to step
  std::array<Bytes, kTiers.size()> at_peak = {};  ///< by tier, at its peak
  Traffic moved;                                  ///< in a step that saves nothing

  Bytes stays_on(Tier tier) const { return stays[static_cast<std::size_t>(tier)]; }
  Bytes peak_on(Tier tier) const { return at_peak[static_cast<std::size_t>(tier)]; }
  Bytes moved_over(Link link) const { return moved[link]; }
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
  std::array<KindUse, kBufferKinds.size()> kinds = {};  ///< in the order of BufferKind
  std::vector<LaneUse> lanes = {};                      ///< those that have work

  const KindUse& of(BufferKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
};

/// Sums up each rank that does what others do not.
std::vector<RankUse> find_use(const PlannedRun& run, const MachineRates& rates);

/// Units by how much of their activations is saved from the forward to the backward pass.
struct SavedUnits {
  std::int64_t none = 0, some = 0, all = 0;
};
/// Counts those units of the plan's stage that could save something.
SavedUnits count_saved(const Plan& plan, const Model& model);

}  // namespace strata
