// The planner: a request and a model in, a complete plan out. From the budgets alone it chooses what the
// request leaves open: order, which units' state lives on the device, what stays resident, and what goes to
// the nvme tier. Nothing here needs a device or memory of the model's size.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/program/channels.h"
#include "engine/plan/program/dependencies.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/program.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/traffic.h"
#include "engine/plan/search/plan_request.h"
#include "engine/plan/search/rates.h"

namespace strata {

/// A program ready to run.
struct PlannedProgram {
  Program program;
  Dependencies dependencies;
  EnumArray<Tier, TierUse> use;
  Traffic step_traffic;   ///< of one step
  Traffic save_traffic;   ///< of one that saves, besides
  Traffic start_traffic;  ///< of a run of steps without a pause, besides

  Bytes moved(Link link) const { return step_traffic[link]; }
  Bytes moved_by_save(Link link) const { return save_traffic[link]; }
  Bytes moved_by_start(Link link) const { return start_traffic[link]; }
};

/// What a tier must hold of programs that run one after another: the largest of them.
Bytes arena_bytes(const PlannedProgram& training, const OfInterludes<PlannedProgram>& interludes, Tier tier);

/// FLOPs of one training step on each rank; the formulas stand in engine/model.
struct StepFlops {
  double model = 0;     ///< forward + backward: what MFU counts
  double executed = 0;  ///< with recomputation: what HFU counts
};

/// Parameters that stay gathered from one pass to another, where the plain program would gather them again.
struct KeptGathered {
  std::int64_t units = 0;
  Bytes bytes = 0;  ///< that each rank does not send for it in a step
};

struct Plan {
  Strategy strategy;
  PlannedProgram training;
  OfInterludes<PlannedProgram> interludes;
  TierBudgets budgets = {kUnlimited, kUnlimited, 0};
  StepFlops flops;
  KeptGathered kept_gathered;
  std::set<Channel> channels;  ///< in which programs of any stage exchange values
  std::int64_t parameters = 0, trained_parameters = 0;
  std::int64_t updated_parameters = 0;  ///< by each rank, padding included
  std::int64_t host_parameters = 0;     ///< of them, those that are updated on the host

  /// What the tier must hold: the largest of all programs.
  Bytes arena_bytes(Tier tier) const;
};

/// Throws ConfigError if the budgets cannot hold the run, naming what does not fit and the smallest budget
/// that would.
///
/// A pure function of its arguments: ranks that give the same get the same.
///
/// A plan for each stage of the pipeline, which all ranks of the stage run.
std::vector<Plan> make_plans(const PlanRequest& request, const Model& model, const MachineRates& rates);
/// The first rank of each stage, with what it does. REQUIRES: the plans outlive what is returned.
std::vector<RankProgram> ranks_of(const std::vector<Plan>& plans);
/// The first stage's: of a run without a pipeline the only one.
Plan make_plan(const PlanRequest& request, const Model& model, const MachineRates& rates);

}  // namespace strata
