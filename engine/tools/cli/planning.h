// Searching for a layout, and kinds of strata plan that print something else than the plan.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/communicator.h"
#include "engine/run/assembly/layout.h"
#include "engine/run/assembly/run_to_plan.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/plan_target.h"

namespace strata {

struct RunConfig;

/// agree_on_layout(), with a status line on standard error while it searches.
AgreedLayout choose_layout(RunConfig& config, bool fresh, std::int64_t ranks, Communicator* world);

/// load_to_plan() of the target's run, with a status line and warnings on standard error.
RunToPlan load_to_plan(const PlanTarget& target);

/// strata plan --search: finds a layout of `open`, the target's run, and prints it beside others. Throws
/// ConfigError if none fits.
int search_plan(const PlanCommand& command, const PlanTarget& target, const RunConfig& open);

/// strata plan --simulate: prints what a step takes and what would shorten it. Throws ConfigError if the run
/// does not fit.
int simulate_plan(const PlanCommand& command, const PlanTarget& target);

}  // namespace strata
