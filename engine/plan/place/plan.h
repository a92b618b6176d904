// A complete plan: what a rank of a run does, in training and between steps. A run has one model, or several
// whose programs are merged.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/program/channels.h"
#include "engine/plan/program/dependencies.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/program.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/plan/program/traffic.h"

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

/// What runs one after another in the same memory.
struct PlannedPrograms {
  PlannedProgram training;
  OfInterludes<PlannedProgram> interludes = {};

  /// What the tier must hold: the largest of all.
  Bytes arena_bytes(Tier tier) const;
};

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

/// What is planned of one model: its own programs, which are the rank's if the run has no other model, and
/// else parts of those.
struct ModelPlan : PlannedPrograms {
  Strategy strategy;
  StepFlops flops;
  KeptGathered kept_gathered;
  std::int64_t parameters = 0, trained_parameters = 0;
  Bytes state_bytes = 0;  ///< of all that is trained, on all ranks: parameters, masters and moments
  std::int64_t updated_parameters = 0;  ///< by each rank, padding included
  std::int64_t host_parameters = 0;     ///< of them, those that are updated on the host
};

/// A turn sequence that was compared with others.
struct ComparedSequence {
  std::string name;
  double seconds = 0;  ///< of a round, by its timeline
  bool is_chosen = false;
};

/// The programs of several models at once. A round has a step of each.
struct MergedPrograms : PlannedPrograms {
  std::vector<ComparedSequence> sequences;
  double round_seconds = 0;      ///< by the timeline of all ranks
  double computing_seconds = 0;  ///< of a round: no order takes less
};

/// What the ranks do that have the same stage of each model.
struct Plan {
  std::int64_t rank = 0;                         ///< the first of them
  std::vector<std::optional<ModelPlan>> models;  ///< by number: each one's part, or nothing
  std::optional<MergedPrograms> merged = {};     ///< nothing: the run has one model, and is not merged
  TierBudgets budgets = {kUnlimited, kUnlimited, 0};
  std::set<Channel> channels = {};  ///< in which programs of any rank exchange values

  const PlannedPrograms& programs() const {
    if (merged) return *merged;
    return *models.front();
  }
  const PlannedProgram& training() const { return programs().training; }
  const OfInterludes<PlannedProgram>& interludes() const { return programs().interludes; }
  Bytes arena_bytes(Tier tier) const { return programs().arena_bytes(tier); }
  /// REQUIRES: the run has one model.
  const ModelPlan& only() const { return *models.front(); }
};

/// The first rank of each plan, with what it does. REQUIRES: the plans outlive what is returned.
std::vector<RankProgram> ranks_of(const std::vector<Plan>& plans);

}  // namespace strata
