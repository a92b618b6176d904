// How commands write a profile of what they have planned or run: with the budgets and the bound that only
// plans know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/run_models.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/cost/step_times.h"
#include "engine/plan/planner/planner.h"
#include "engine/tools/profile/step_profile.h"

namespace strata {

struct RecordedStep;

/// Simulates a machine of these rates: the first rank of each plan. A step's seconds and bound are those that
/// strata plan and explain print by the same rates. REQUIRES: the plans are the planner's, and outlive the
/// profiles.
std::vector<StepProfile> profiles_of(const Planner& planner, const std::vector<Plan>& plans,
                                     const MachineRates& rates);

/// What the first plan's step takes on such a machine.
StepTimes simulated_times(const std::vector<Plan>& plans, const MachineRates& rates);

/// What was measured on this rank, whose plan has given `planned`.
StepProfile measured_beside(const StepProfile& planned, const PlannedProgram& program,
                            const RecordedStep& recorded);

/// Shortens a run to `steps` steps. The run then leaves nothing behind: no checkpoint, no metrics, no
/// validation. No model ends before the others.
void shorten(RunModels& run, std::int64_t steps);

/// Writes a trace of planned profiles to this file. Throws IoError.
void write_planned_trace(const std::string& path, const std::vector<StepProfile>& planned);

/// Writes the folder and says where the page is. `run_file` names it.
void write_profile(const std::string& folder, const std::string& run_file,
                   const std::vector<StepProfile>& planned, const std::vector<StepProfile>& measured);

}  // namespace strata
