// A run as it is planned, of one model or of several, on all ranks that differ, and what a step of it takes.
// What is said of a run and what a change of it would do are read from this. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/planner.h"
#include "engine/plan/program/rank_tasks.h"

namespace strata {

/// Hears what is done next where many runs are planned, as "planning change 5 of 31: train.microbatch=8". Any
/// thread of the arena may call it.
using OnPlanning = std::function<void(const std::string& what)>;

/// How long a step takes by the rates that it was planned with; of several models a round.
struct StepEstimate {
  double seconds = 0;   ///< from one step to the next: the longest of what follows
  double timeline = 0;  ///< by the order of lanes and what they wait for, on all ranks together
  /// What a rank does that cannot overlap: if cores copy, all their computing, updates and copies; else the
  /// longest of computing, each link and the drives.
  double work = 0;
  StepNeeds needs = {};  ///< of the rank that needs some resource longest
};

StepEstimate estimate_step(const std::vector<Plan>& plans, LaneMode lanes, const MachineRates& rates);

struct PlannedRun {
  std::vector<Plan> plans = {};
  std::vector<RankProgram> ranks = {};  ///< ranks_of(plans)
  std::int64_t tokens = 0;              ///< in a step of all ranks, or in a round of all models
  StepEstimate step = {};

  PlannedRun() = default;
  PlannedRun(PlannedRun&&) = default;
  PlannedRun& operator=(PlannedRun&&) = default;
  PlannedRun(const PlannedRun&) = delete;
  PlannedRun& operator=(const PlannedRun&) = delete;
  ~PlannedRun() = default;

  /// By tier, what the rank needs that needs most.
  EnumArray<Tier, Bytes> peaks() const;
};

/// Plans it as its commands do: the models of an `is_several` run are merged, if only one. Throws
/// ConfigError if the budgets do not hold it. REQUIRES: there is a model.
PlannedRun plan_run(const std::vector<ModelToPlan>& models, bool is_several, const MachineRates& rates);

/// The same without words: nothing if there is no plan.
std::optional<PlannedRun> find_run(const std::vector<ModelToPlan>& models, bool is_several,
                                   const MachineRates& rates);

}  // namespace strata
